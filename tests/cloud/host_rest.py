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

"""What an operator does on a host with its own tools."""

import urllib.parse

from pypowervm import adapter as pvm_adapter
from pypowervm.tasks import power
from pypowervm.wrappers import logical_partition


def log_on(rest):
    """Return pypowervm's adapter for the REST API of a host.

    :param rest: the API's address, and its user.
    """
    address = urllib.parse.urlsplit(rest.url)
    session = pvm_adapter.Session(
        address.hostname,
        rest.username,
        rest.password,
        protocol='http',
        port=address.port,
    )
    return pvm_adapter.Adapter(session)


def remove_lpar(rest, uuid):
    """Power an LPAR off and delete it, as ``pvmctl lpar`` does."""
    lpar = logical_partition.LPAR.get(log_on(rest), uuid=uuid)
    if lpar.state != 'not activated':
        power.power_off(lpar, None, force_immediate=power.Force.TRUE)
        lpar = lpar.refresh()
    lpar.delete()
