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

"""Stops and restarts LPARs: softly first, if there is time for it."""

import contextlib
from collections.abc import Collection
from collections.abc import Iterator

from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.lpar import partition
from nova_powervm.ops import interfaces

LOG = logging.getLogger(__name__)

#: States in which an operating system cannot be asked to shut down.
_CANNOT_SHUT_DOWN = frozenset(
    (partition.Power.FAILED, partition.Power.SUSPENDED)
)
#: States in which an LPAR was not started, whatever its job says.
_NOT_STARTED = frozenset((partition.Power.FAILED, partition.Power.OFF))
#: The same after a restart, in the middle of which an LPAR may still be off.
_NOT_RESTARTED = frozenset((partition.Power.FAILED,))


def reference_code(partitions: interfaces.Partitions, uuid: str) -> str:
    """Return the reference code of an LPAR, or an empty string.

    Raise no error, because the code is to explain another error.

    :param uuid: Upper-case PowerVM uuid.
    """
    try:
        lpar = partitions.find(uuid)
    except exception.PowerVMError:
        return ''
    return lpar.reference_code if lpar else ''


def start(
    partitions: interfaces.Partitions, lpar: partition.Partition
) -> None:
    """Start an LPAR unless it is already running.

    :raises exception.RestError: It did not start; the reason begins with the
        reference code.
    """
    with _explained(partitions, lpar):
        partitions.power_on(lpar)
        _check_state(partitions, lpar, _NOT_STARTED)


def _check_state(
    partitions: interfaces.Partitions,
    lpar: partition.Partition,
    refused: Collection[partition.Power],
) -> None:
    """Check that an LPAR runs, which the end of its job does not tell.

    :raises exception.NotStarted: Its state is one of those refused.
    """
    state = partitions.state(lpar.uuid)
    if partition.power(state) in refused:
        raise exception.NotStarted(
            action=f'starting LPAR {lpar.name}',
            reason=f'its job ended well, but it is in the state "{state}"',
            state=state,
        )


@contextlib.contextmanager
def _explained(
    partitions: interfaces.Partitions, lpar: partition.Partition
) -> Iterator[None]:
    """Add the reference code of an LPAR to the error of a failed start.

    The code comes first, because Nova cuts a fault after 255 characters.
    """
    try:
        yield
    except exception.RestError as error:
        code = reference_code(partitions, lpar.uuid)
        if not code:
            raise
        reason = f'reference code {code}: {error.fields["reason"]}'
        more = {'reason': reason, 'reference_code': code}
        raise type(error)(**error.fields | more) from error


def power_off(
    partitions: interfaces.Partitions, uuid: str, timeout: int = 0
) -> None:
    """Stop an LPAR unless it is already off.

    :param uuid: Upper-case PowerVM uuid.
    :param timeout: As for :func:`stop`.
    :raises exception.PartitionNotFound: There is no such LPAR.
    """
    lpar = interfaces.require_lpar(partitions, uuid)
    if lpar.is_active:
        stop(partitions, lpar, timeout)


def crash_dump(partitions: interfaces.Partitions, uuid: str) -> bool:
    """Have the guest of an LPAR write a dump of its memory, and restart.

    The LPAR keeps its slots and adapters.

    :param uuid: Upper-case PowerVM uuid.
    :returns: False, and nothing is done, if the LPAR is off.
    :raises exception.PartitionNotFound: There is no such LPAR.
    """
    lpar = interfaces.require_lpar(partitions, uuid)
    if lpar.is_active:
        partitions.dump(lpar)
    return lpar.is_active


def stop(
    partitions: interfaces.Partitions, lpar: partition.Partition, timeout: int
) -> None:
    """Stop an LPAR that is not off.

    :param timeout: Seconds for the operating system to shut down before the
        LPAR is stopped hard; 0 to stop it hard at once.
    """
    if timeout and lpar.power not in _CANNOT_SHUT_DOWN:
        try:
            partitions.power_off(lpar, hard=False, timeout=timeout)
        except exception.RestError as error:
            LOG.warning(
                'LPAR %(name)s did not shut down within %(timeout)d seconds '
                '(%(error)s); it is stopped hard.',
                {'name': lpar.name, 'timeout': timeout, 'error': error},
            )
        else:
            return
    partitions.power_off(lpar, hard=True)


def restart(
    partitions: interfaces.Partitions, lpar: partition.Partition, timeout: int
) -> None:
    """Restart a running LPAR, hard if a soft restart fails.

    :param timeout: Seconds for a soft restart; 0 to restart it hard at once.
    """
    if timeout:
        try:
            partitions.restart(lpar, hard=False, timeout=timeout)
            _check_state(partitions, lpar, _NOT_RESTARTED)
        except exception.RestError as error:
            LOG.warning(
                'LPAR %(name)s did not restart softly (%(error)s); it is '
                'restarted hard.',
                {'name': lpar.name, 'error': error},
            )
        else:
            return
        # The LPAR may have shut down after the limit, and would stay off.
        lpar = interfaces.require_lpar(partitions, lpar.uuid)
        if not lpar.is_active:
            start(partitions, lpar)
            return
    with _explained(partitions, lpar):
        partitions.restart(lpar, hard=True)
        _check_state(partitions, lpar, _NOT_RESTARTED)
