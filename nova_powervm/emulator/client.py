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

"""An HTTP client of the control plane of an emulator."""

import json
import urllib.error
import urllib.request
from typing import Any

from nova_powervm.emulator import errors

JSON = dict[str, Any]


class Client:
    """The verbs of :class:`.control.Control`, over HTTP.

    Every verb raises errors.ControlError if the emulator refuses it.

    :param url: the URL that the emulator prints when it starts.
    :param timeout: seconds to wait for an answer.
    """

    def __init__(self, url: str, timeout: float = 30.0) -> None:
        self._url = url.rstrip('/')
        self._timeout = timeout

    def state(self) -> JSON:
        """See ``Control.state``."""
        return self._object('state')

    def reset(self) -> None:
        """See ``Control.reset``."""
        self._call('reset')

    def load_world(self, world: JSON) -> None:
        """See ``Control.load_world``."""
        self._call('load_world', world=world)

    def plug(
        self,
        drc_index: str,
        card: JSON | None = None,
        system: str | None = None,
    ) -> JSON:
        """See ``Control.plug``."""
        return self._object(
            'plug', drc_index=drc_index, card=card, system=system
        )

    def pull(
        self, drc_index: str, remove: bool = False, system: str | None = None
    ) -> None:
        """See ``Control.pull``."""
        self._call('pull', drc_index=drc_index, remove=remove, system=system)

    def set_owner(
        self,
        drc_index: str,
        partition: str | int | None,
        profiles: bool = True,
        system: str | None = None,
    ) -> None:
        """See ``Control.set_owner``."""
        self._call(
            'set_owner',
            drc_index=drc_index,
            partition=partition,
            profiles=profiles,
            system=system,
        )

    def set_partition(
        self,
        partition: str | int,
        state: str | None = None,
        rmc_state: str | None = None,
        system: str | None = None,
    ) -> JSON:
        """See ``Control.set_partition``."""
        return self._object(
            'set_partition',
            partition=partition,
            state=state,
            rmc_state=rmc_state,
            system=system,
        )

    def contents(self, udid: str, vios: str | int | None = None) -> bytes:
        """See ``Control.contents``."""
        return self._read('contents', udid=udid, vios=vios)

    def set_job_mode(self, mode: str) -> None:
        """See ``Control.set_job_mode``."""
        self._call('set_job_mode', mode=mode)

    def jobs(self) -> list[JSON]:
        """See ``Control.jobs``."""
        return self._list('jobs')

    def advance_jobs(
        self, job_id: str | None = None, to_end: bool = False
    ) -> list[JSON]:
        """See ``Control.advance_jobs``."""
        return self._list('advance_jobs', job_id=job_id, to_end=to_end)

    def plan_job(
        self,
        operation: str,
        message: str,
        status: str = 'COMPLETED_WITH_ERROR',
    ) -> None:
        """See ``Control.plan_job``."""
        self._call(
            'plan_job', operation=operation, message=message, status=status
        )

    def expire_sessions(self) -> int:
        """See ``Control.expire_sessions``."""
        return int(self._call('expire_sessions'))

    def set_password(self, password: str) -> None:
        """See ``Control.set_password``."""
        self._call('set_password', password=password)

    def emit_event(
        self,
        type: str,
        data: str = '',
        detail: str = '',
    ) -> None:
        """See ``Control.emit_event``."""
        self._call('emit_event', type=type, data=data, detail=detail)

    def add_fault(  # noqa: PLR0913 - the fields of a fault
        self,
        *,
        method: str = '',
        match: str = '',
        nth: int = 1,
        every: bool = False,
        phase: str = 'before',
        status: int = 0,
        message: str = 'Injected by a test.',
        drop: bool = False,
        delay: float = 0.0,
    ) -> JSON:
        """See ``Control.add_fault``."""
        return self._object(
            'add_fault',
            method=method,
            match=match,
            nth=nth,
            every=every,
            phase=phase,
            status=status,
            message=message,
            drop=drop,
            delay=delay,
        )

    def faults(self) -> list[JSON]:
        """See ``Control.faults``."""
        return self._list('faults')

    def clear_faults(self) -> None:
        """See ``Control.clear_faults``."""
        self._call('clear_faults')

    def journal(self) -> list[JSON]:
        """See ``Control.journal``."""
        return self._list('journal')

    def journal_counts(self) -> dict[str, int]:
        """See ``Control.journal_counts``."""
        return self._object('journal_counts')

    def clear_journal(self) -> None:
        """See ``Control.clear_journal``."""
        self._call('clear_journal')

    def _object(self, verb: str, **arguments: Any) -> JSON:
        result: JSON = self._call(verb, **arguments)
        return result

    def _list(self, verb: str, **arguments: Any) -> list[JSON]:
        result: list[JSON] = self._call(verb, **arguments)
        return result

    def _call(self, verb: str, **arguments: Any) -> Any:
        return json.loads(self._read(verb, **arguments))

    def _read(self, verb: str, **arguments: Any) -> bytes:
        request = urllib.request.Request(  # noqa: S310 - the caller's URL
            f'{self._url}/control/v1/{verb}',
            data=json.dumps(arguments).encode(),
            headers={'Content-Type': 'application/json'},
            method='POST',
        )
        try:
            with urllib.request.urlopen(  # noqa: S310 - the caller's URL
                request, timeout=self._timeout
            ) as response:
                body: bytes = response.read()
                return body
        except urllib.error.HTTPError as error:
            with error:
                message = json.load(error)['error']
            raise errors.ControlError(message) from error
