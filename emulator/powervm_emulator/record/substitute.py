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

"""Made-up values in the place of others, the same one for the same value."""

import base64
import hashlib
import re
from collections.abc import Callable

_UUID = re.compile(
    '[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}'
    '-[0-9a-fA-F]{12}'
)
_IPV4 = re.compile(r'(?<![\w.])(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?![\w.])')
# Masks of networks, and the addresses of nobody and of oneself.
_EVERYWHERE = ('255.', '0.', '127.')
# All eight groups, or fewer with a double colon; a time of day is neither.
_IPV6 = re.compile(
    r'(?<![\w:])(?:(?:[0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}'
    r'|(?=[0-9a-fA-F:]*::)[0-9a-fA-F]{0,4}(?::[0-9a-fA-F]{0,4}){2,7})'
    r'(?![\w:])'
)
_MAC = re.compile(r'(?<![\w:])[0-9a-fA-F]{2}(?::[0-9a-fA-F]{2}){5}(?![\w:])')
# A unit's type and serial number, as location codes begin.
_UNIT = re.compile(r'\b(U[0-9A-Z]{4}\.[0-9A-Z]{3}\.)([0-9A-Z]{7})\b')
_PORT = re.compile(r'\bW([0-9A-F]{16})\b')
_HEX = re.compile('[0-9a-fA-F]+')
_DIGITS = frozenset('0123456789')
# Pools, groups and disks of them have identities of so many digits in common.
_IDENTITY = 32


class Substitute:
    """Gives made-up values, and remembers which one is for what."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, str], str] = {}
        self._names: dict[str, str] = {}
        self._pattern: re.Pattern[str] | None = None

    def name(self, kind: str, value: str, like: Callable[[int], str]) -> str:
        """Return the name in the place of another one, from now on anywhere.

        :param like: gives the made-up one of a number.
        """
        if value not in self._names:
            self._names[value] = self._make(kind, value, like)
            self._pattern = None
        return self._names[value]

    def names(self, text: str) -> str:
        """Return a text with the known names in it replaced."""
        if not self._names:
            return text
        if self._pattern is None:
            longest = sorted(self._names, key=len, reverse=True)
            self._pattern = re.compile(
                r'(?<![A-Za-z0-9])(?:'
                + '|'.join(map(re.escape, longest))
                + ')(?![A-Za-z0-9])'
            )
        return self._pattern.sub(lambda found: self._names[found[0]], text)

    def text(self, text: str) -> str:
        """Return a text with everything replaced that identifies."""
        text = self.names(text)
        text = _UUID.sub(lambda found: self.uuid(found[0]), text)
        text = _UNIT.sub(lambda found: found[1] + self.serial(found[2]), text)
        text = _PORT.sub(lambda found: 'W' + self.digits(found[1]), text)
        text = _MAC.sub(lambda found: self._colons(found[0]), text)
        text = _IPV6.sub(lambda found: self._ipv6(found[0]), text)
        return _IPV4.sub(lambda found: self._ipv4(found[0]), text)

    def uuid(self, value: str) -> str:
        """Return a uuid in the case of another."""
        made = self._make(
            'uuid',
            value.lower(),
            lambda number: f'{number:08x}-0000-4000-8000-000000000000',
        )
        return made.upper() if value.isupper() else made

    def serial(self, value: str) -> str:
        """Return a serial number of the same length."""
        return self._make(
            'serial',
            value,
            lambda number: f'XX{number:0{max(len(value) - 2, 1)}d}',
        )

    def mac(self, value: str) -> str:
        """Return a locally administered MAC address of twelve digits."""
        return self._make(
            'mac', value.upper(), lambda number: f'0200{number:08X}'
        )

    def key(self, value: str) -> str:
        """Return a public key of SSH, without a comment."""
        return self._make(
            'key', value, lambda number: f'ssh-rsa {_hash(number)}'
        )

    def digits(self, value: str) -> str:
        """Return as many hexadecimal digits, in the same case."""
        made = ''
        for at in range(0, len(value), _IDENTITY):
            part = value[at : at + _IDENTITY]
            made += self._make('digits', part.lower(), _hash)[: len(part)]
        return made.upper() if value == value.upper() else made

    def opaque(self, value: str) -> str:
        """Return something of the same form for what only programs read.

        UDIDs begin with two digits that say what they are of.
        """
        head, rest = value[:2], value[2:]
        first, dot, last = rest.partition('.')
        if _HEX.fullmatch(first) and not set(first) <= _DIGITS:
            return head + self.digits(first) + dot + last
        if _is_base64(rest):
            return head + self._base64(rest)
        plain = self.text(value)
        if plain != value:
            return plain
        if set(value) <= _DIGITS:
            return value
        return self.digits(value.encode().hex())[: len(value)].upper()

    def _base64(self, value: str) -> str:
        length = len(base64.b64decode(value))
        made = self.digits(value.encode().hex())
        return base64.b64encode((made * length)[:length].encode()).decode()

    def _colons(self, value: str) -> str:
        made = self.mac(value.replace(':', ''))
        return ':'.join(made[at : at + 2] for at in range(0, len(made), 2))

    def _ipv4(self, value: str) -> str:
        if value.startswith(_EVERYWHERE):
            return value
        # Networks for documentation: RFC 5737.
        networks = ('192.0.2', '198.51.100', '203.0.113')
        return self._make(
            'ipv4',
            value,
            lambda number: (
                f'{networks[(number - 1) // 254 % 3]}.{(number - 1) % 254 + 1}'
            ),
        )

    def _ipv6(self, value: str) -> str:
        return self._make(
            'ipv6', value.lower(), lambda number: f'2001:db8::{number:x}'
        )

    def _make(self, kind: str, value: str, like: Callable[[int], str]) -> str:
        if (kind, value) not in self._made:
            number = sum(known == kind for known, _ in self._made) + 1
            self._made[kind, value] = like(number)
        return self._made[kind, value]


def _hash(number: int) -> str:
    """Return digits of a number that nobody's value decides."""
    return hashlib.sha256(str(number).encode()).hexdigest()


def _is_base64(text: str) -> bool:
    if len(text) < len('M0lCTSAg') or len(text) % 4:
        return False
    try:
        return base64.b64encode(base64.b64decode(text, validate=True)) == (
            text.encode()
        )
    except ValueError:
        return False
