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

"""Caches the templates of jobs, which pypowervm reads for each job."""

import copy
from typing import Any

from pypowervm import adapter as pvm_adapter
from pypowervm import const
from pypowervm import exceptions as pvm


class Adapter(pvm_adapter.Adapter):
    """Reads the template of each kind of job once.

    A template has only the names of the operation and its group, so it is the
    same for each partition. After a job that was not accepted, all templates
    are read again: the server may have been replaced.

    :param session: A session that has logged on.
    """

    def __init__(self, session: pvm_adapter.Session) -> None:
        super().__init__(session)
        self._templates: dict[tuple[str, str], pvm_adapter.Response] = {}

    def read(self, root_type: str, *args: Any, **kwargs: Any) -> Any:
        """Read a resource, or return a copy of a template."""
        if kwargs.get('suffix_type') != const.SUFFIX_TYPE_DO:
            return super().read(root_type, *args, **kwargs)
        key = root_type, str(kwargs.get('suffix_parm'))
        known = self._templates.get(key)
        if known is None:
            known = super().read(root_type, *args, **kwargs)
            self._templates[key] = known
        # The caller fills in the template.
        return copy.deepcopy(known)

    def create_job(self, *args: Any, **kwargs: Any) -> Any:
        """Start a job."""
        try:
            return super().create_job(*args, **kwargs)
        except pvm.Error:
            self._templates.clear()
            raise
