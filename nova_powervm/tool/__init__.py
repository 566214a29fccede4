# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""The commands of operators: nova-powervm-inventory, -clean and -status.

The room for what an operator runs and no service loads. What the driver
decides is not decided here again: the commands call its planner and print what
that says. Nothing but the demonstration may import this package.

Open first: the entry points in ``setup.cfg``, which name the class of each
command; :data:`.exit_codes.TABLE`; :func:`.inventory.survey.make_survey`,
which brings together what was read with the plan of nova-compute;
:class:`.status.Checks`.
"""

import warnings

# Libraries that only check whether eventlet is installed make it print a
# long warning, which means nothing to the user of a command.
warnings.filterwarnings('ignore', message=r'\s*Eventlet is deprecated')
