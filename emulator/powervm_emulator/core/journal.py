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

"""A record of the requests to the REST API."""

import collections
import dataclasses
import threading

# Records that are kept; older ones are only counted.
LIMIT = 2000


@dataclasses.dataclass
class Record:
    """One request.

    :ivar number: requests are numbered from 1 in the order they arrive.
    :ivar label: the route's name, for example ``LogicalPartition.create``.
    :ivar path: with the query.
    :ivar status: of the answer; None while there is none, and for a
        connection that was dropped.
    :ivar fault: the number of the fault that was applied, or None.
    """

    number: int
    method: str
    path: str
    label: str
    status: int | None = None
    fault: int | None = None


class Journal:
    """The latest requests, safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: collections.deque[Record] = collections.deque(
            maxlen=LIMIT
        )
        self._counts: collections.Counter[str] = collections.Counter()
        self._last = 0

    def begin(self, method: str, path: str, label: str) -> Record:
        """Record a request that has arrived."""
        with self._lock:
            self._last += 1
            record = Record(self._last, method, path, label)
            self._records.append(record)
            self._counts[f'{method} {label}'] += 1
            return record

    def records(self) -> list[Record]:
        """Return copies of the records, oldest first."""
        with self._lock:
            return [dataclasses.replace(record) for record in self._records]

    def counts(self) -> dict[str, int]:
        """Return the number of all requests by ``METHOD label``."""
        with self._lock:
            return dict(self._counts)

    def clear(self) -> None:
        """Forget every record and count; numbers go on."""
        with self._lock:
            self._records.clear()
            self._counts.clear()
