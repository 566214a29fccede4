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

"""Takes the NVRAM of an LPAR along to another host.

Nova passes what migrate_disk_and_power_off returns on the source to
finish_migration on the destination, as ``disk_info``. A source of an earlier
version passes an empty text, and a destination of one ignores it.

NVRAM may hold secrets, such as passwords among boot arguments. If the end of a
move fails, Nova sends all its arguments in a notification. So the NVRAM is
taken out of ``disk_info``, which is one of them, and its key is one that
oslo.utils masks.
"""

import contextlib
import re
from collections.abc import Iterator
from typing import Any

from oslo_log import log as logging

from nova_powervm.ops import interfaces
from nova_powervm.virt import translation

LOG = logging.getLogger(__name__)

#: Characters of the longest NVRAM that moves. No captured host shows one. The
#: data of pypowervm's tests speaks of 20 KiB in base64, and a message of RPC
#: stays far below the limits of brokers (16 MiB in RabbitMQ).
LONGEST = 256 * 1024
#: What base64 consists of, which also fits into XML.
_BASE64 = re.compile(r'[A-Za-z0-9+/=\r\n\t ]*')
_KEY = 'nvram_secret'


def hand_over(
    partitions: interfaces.Partitions, instance: Any
) -> dict[str, str]:
    """Return the ``disk_info`` of an instance that leaves this host.

    Log why its NVRAM stays behind, but raise no error: its guest has been
    stopped.

    :param partitions: The LPARs of this host.
    :param instance: nova.objects.Instance.
    """
    try:
        nvram = partitions.nvram(translation.lpar_of(instance))
    except Exception as error:
        # After any error, the rest of the move is possible.
        _warn(instance, error)
        return {}
    return {_KEY: nvram} if nvram and _fits(instance, nvram) else {}


def take_out(disk_info: Any, instance: Any) -> str | None:
    """Take the NVRAM out of the ``disk_info`` that came from the source.

    :param disk_info: As Nova passes it; changed.
    :param instance: nova.objects.Instance.
    :returns: The NVRAM; None if there is none that can be used.
    """
    if not isinstance(disk_info, dict):
        return None
    nvram = disk_info.pop(_KEY, None)
    return nvram if nvram and _fits(instance, nvram) else None


@contextlib.contextmanager
def lost_on_error(nvram: str | None, instance: Any) -> Iterator[None]:
    """Tell in the log that an NVRAM is lost, if this block fails.

    Nova does not repeat the end of a move, and nobody has kept the NVRAM.
    """
    try:
        yield
    except Exception:
        if nvram:
            LOG.warning(
                'The NVRAM of the instance is lost: its LPAR could not be '
                'made, and a hard reboot makes one without it. See "If the '
                'NVRAM is lost" in the guide to evacuations.',
                instance=instance,
            )
        raise


def _fits(instance: Any, nvram: Any) -> bool:
    """Return whether an NVRAM can move; if not, log why."""
    if not isinstance(nvram, str) or not _BASE64.fullmatch(nvram):
        _warn(instance, 'it is not a text in base64')
    elif len(nvram) > LONGEST:
        _warn(
            instance,
            f'it has {len(nvram)} characters, and {LONGEST} are the limit',
        )
    else:
        return True
    return False


def _warn(instance: Any, reason: object) -> None:
    LOG.warning(
        'The NVRAM of the instance does not move with it: %s',
        reason,
        instance=instance,
    )
