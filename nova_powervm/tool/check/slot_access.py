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

"""Reads what may speak against a trial with a slot, and refuses it.

What cannot be read is a reason against it. Only where nothing of Nova's is
found is nothing of Nova's asked: neither an inventory file nor a file of
Cyborg's, no credentials for Placement, and no LPAR that looks like Nova's.
"""

import argparse
import os
import re
from collections.abc import Iterator

from nova_powervm import exception
from nova_powervm import inventory_file
from nova_powervm.devices import policy as policies
from nova_powervm.devices import slots
from nova_powervm.lpar import partition
from nova_powervm.powervm.check import slot_trial
from nova_powervm.tool import errors
from nova_powervm.tool.inventory import config as configs
from nova_powervm.tool.inventory import host_reader
from nova_powervm.tool.rules import placement_tree
from nova_powervm.tool.rules import slot_trials

_ACCELERATORS = '/etc/cyborg/inventory.yaml'
#: The names of LPARs by Nova's default for ``instance_name_template``.
_INSTANCE = re.compile(r'instance-[0-9a-f]{8}')


class Access:
    """Decides whether a slot may be tried.

    :param config: What nova.conf says.
    :param parsed_args: The command line.
    :ivar is_nova_unknown: Whether nothing of Nova's was found at the last
        look, so that it was not asked.
    """

    def __init__(
        self, config: configs.Config, parsed_args: argparse.Namespace
    ) -> None:
        self._config = config
        self._name = parsed_args.slot
        self._is_named = parsed_args.accelerators is not None
        self._accelerators = parsed_args.accelerators or _ACCELERATORS
        self._is_default = not (
            parsed_args.config_files or parsed_args.config_dirs
        )
        self.is_nova_unknown = False

    def choose(self, this: slot_trial.Host) -> slot_trial.Slot:
        """Read everything anew, and return the slot.

        :raises exception.ConfigurationError: The host has no such slot.
        :raises errors.SlotRefused: It must not be tried; says each reason.
        """
        reading = host_reader.HostReading(
            this.system, str(self._config.settings.server)
        )
        slot = reading.find_slot(self._name)
        silences = [*self._unreadable()]
        nova = _load(self._config.inventory_file, silences)
        cyborg = _load(self._accelerators, silences)
        if self._is_named and not _is_there(self._accelerators):
            silences.append(
                f'there is no file {self._accelerators}. Correct '
                '--accelerators, or leave it out'
            )
        tree = self._read_tree(silences)
        self.is_nova_unknown = tree is None
        facts = slot_trials.Facts(
            slot=slot,
            io_slots=tuple(this.system.io_slots),
            profiles=this.profiles,
            nova=nova,
            cyborg=cyborg,
            tree=tree,
            silences=tuple(silences),
            instances=tuple(sorted(filter(_INSTANCE.fullmatch, this.lpars))),
        )
        reasons = slot_trials.Reasons(slot_trials.find_reasons(facts))
        if reasons:
            raise errors.SlotRefused(slot=slot, reasons=reasons)
        return slot

    def _unreadable(self) -> Iterator[str]:
        """Yield which files of nova-compute this user cannot read."""
        for path in configs.unreadable_defaults() if self._is_default else ():
            yield (
                f'{path} cannot be read. Run the command as the user of '
                'nova-compute'
            )

    def _read_tree(self, silences: list[str]) -> placement_tree.Tree | None:
        """Read Placement, unless nothing of Nova's is here.

        :param silences: Gets why it was not read although it has to be.
        """
        files = (self._config.inventory_file, self._accelerators)
        try:
            return self._ask_placement()
        except errors.PlacementNotConfigured as error:
            if self._is_half_configured or any(map(_is_there, files)):
                silences.append(errors.one_line(error))
        except errors.NodeUnknown:
            silences.append(
                f'Placement has no compute node {self._config.nodename}. Run '
                'the command with the nova.conf of the compute node, once '
                'nova-compute has run there'
            )
        except exception.PowerVMError as error:
            silences.append(errors.one_line(error))
        return None

    def intentions(self, spec: partition.PartitionSpec) -> Iterator[str]:
        """Yield in words what is done with the slot."""
        yield (
            f'It has slot {slots.format_drc_indexes(spec.drc_indexes)}, and '
            'is started to its SMS menus only. No disk, medium or network '
            'adapter is made'
        )
        if self.is_nova_unknown:
            yield (
                'Nothing of Nova was found here: neither an inventory file '
                'nor credentials for Placement. If Nova runs with this host, '
                'stop, and run the command on its compute node'
            )

    @property
    def _is_half_configured(self) -> bool:
        """Whether nova.conf begins to say how to log on to Placement."""
        section = self._config.conf.placement
        return bool(section.auth_type or section.auth_section)

    def _ask_placement(self) -> placement_tree.Tree:
        # Importing keystoneauth takes time, and only this needs it.
        from nova_powervm.tool.inventory import placement_client as client  # noqa: PLC0415

        placement = client.connect_placement(self._config.conf)
        return placement.tree(self._config.nodename)


def filled(text: str) -> str:
    """Return the value of an option.

    :raises argparse.ArgumentTypeError: It is empty, as an unset variable is.
    """
    if not text.strip():
        raise argparse.ArgumentTypeError('it is empty')
    return text


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a trial with a slot."""
    parser.add_argument(
        '--slot',
        type=filled,
        metavar='SLOT',
        help='partition: try this slot instead, with an LPAR that is started '
        'to its SMS menus only. '
        f'SLOT is the {host_reader.SLOT_HELP}. Run it on the compute node, as '
        'a user who can read nova.conf: it is refused unless the inventory '
        'file, that of Cyborg, and Placement say that nobody can get the '
        'device, or if any of them cannot be read. None of them is needed '
        'where nothing of Nova is found: no such file, no credentials for '
        'Placement in nova.conf, and no LPAR instance-...',
    )
    parser.add_argument(
        '--accelerators',
        type=filled,
        metavar='FILE',
        help=f'for --slot: file of the slots that Cyborg manages (default: '
        f'{_ACCELERATORS})',
    )


def _load(path: str, silences: list[str]) -> policies.Policy:
    """Read a file of slots; a missing one offers none."""
    try:
        return inventory_file.load(path)
    except exception.PowerVMError as error:
        silences.append(errors.one_line(error))
        return policies.Policy()


def _is_there(path: str) -> bool:
    """Return whether there is a file, or may be one."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        pass
    return True
