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

"""A pool without free space."""

import contextlib

from pypowervm.wrappers import storage

from tests.cloud import host_rest

#: The REST API rounds the free space of the pool.
_SPARE_GB = 0.02


@contextlib.contextmanager
def filled(rest):
    """Leave no space in the pool in a context.

    :param rest: the REST API of a host that shares it.
    """
    api = host_rest.log_on(rest)
    (pool,) = storage.SSP.get(api)
    (tier,) = storage.Tier.get(
        api, parent_type=storage.SSP.schema_type, parent_uuid=pool.uuid
    )
    unit = storage.LUEnt.bld(
        api, 'filler', pool.free_space - _SPARE_GB, thin=False
    )
    unit = unit.create(parent=tier)
    try:
        yield
    finally:
        api.delete_by_href(unit.href)
