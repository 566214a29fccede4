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

"""nova-powervm-clean: has used devices cleaned, and releases them.

A service beside nova-compute, or a job of cron. It alone keeps files on the
host, and runs a program of the operator's. How a device is cleaned is that
program's business, and when one may be released that of
``tool.rules.releasing``: neither may come in.

Open first: :func:`.app.serve`, :meth:`.cleaner.Cleaner.clean_all`,
:meth:`.program.Program.run`.
"""
