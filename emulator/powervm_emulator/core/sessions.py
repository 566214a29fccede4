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

"""Who may talk to the host: credentials and session tokens."""

import hashlib
import hmac
from collections.abc import Callable

from powervm_emulator.core import errors

#: The cookie that is as good as the token.
COOKIE = 'JSESSIONID'


class Sessions:
    """Session tokens and the credentials they are given for.

    :param username: the one user that can log on with a password.
    :param password: its password; a test credential, not a secret.
    :param new_token: gives a fresh token.
    """

    def __init__(
        self, username: str, password: str, new_token: Callable[[], str]
    ) -> None:
        self.username = username
        self.password = password
        self._new_token = new_token
        self._tokens: set[str] = set()

    def logon(self, username: str, password: str) -> str:
        """Open a session with a password and return its token.

        :raises errors.Unauthorized: the credentials are wrong.
        """
        same_name = _same(username, self.username)
        same_password = _same(password, self.password)
        if not (same_name and same_password):
            raise errors.Unauthorized(
                f'The logon of user {username!r} was refused.'
            )
        return self.open()

    def open(self) -> str:
        """Open a session for a local client and return its token."""
        token = self._new_token()
        self._tokens.add(token)
        return token

    def close(self, token: str) -> None:
        """End a session; one that is not there is no error."""
        self._tokens.discard(token)

    def check(self, token: str | None, status: int) -> None:
        """Refuse a request that has no live session.

        :param status: 401, on which clients log on again; they do not on 403.
        :raises errors.Unauthorized: with the status.
        """
        if token not in self._tokens:
            error = errors.Unauthorized(
                'The request has no session, or its session has expired.'
            )
            error.status = status
            raise error

    def expire(self) -> int:
        """End every session and return how many there were."""
        count = len(self._tokens)
        self._tokens.clear()
        return count

    def __len__(self) -> int:
        return len(self._tokens)


def cookies(token: str) -> dict[str, str]:
    """Return the cookies that go with the token of a logon."""
    digest = hashlib.sha256(token.encode()).hexdigest()
    return {COOKIE: token, 'CCFWSESSION': digest[:32].upper()}


def _same(given: str, expected: str) -> bool:
    # A password can be any string that JSON can express.
    return hmac.compare_digest(
        given.encode(errors='surrogatepass'),
        expected.encode(errors='surrogatepass'),
    )
