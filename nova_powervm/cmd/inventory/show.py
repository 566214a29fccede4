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

"""The command ``show``."""

import argparse
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any

from nova_powervm.cmd.inventory import base
from nova_powervm.cmd.inventory import hosts
from nova_powervm.domain import matching
from nova_powervm.policyfile import load


class Show(base.Lister):
    """List the slots of the host and what becomes of them."""

    examples = """
    # All slots of the host that nova.conf names
    nova-powervm-inventory show
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the options of this command."""
        parser = super().get_parser(prog_name)
        hosts.add_options(parser)
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], Iterable[Any]]:
        """List the slots."""
        reading = hosts.read(self.app, parsed_args)
        policy = load(self.app.config.inventory_file)
        return ('Slot', 'Location', 'Reason'), [
            (v.slot.drc_hex, v.slot.drc_name, v.reason)
            for v in matching.judge(policy, reading.view.io_slots)
        ]
