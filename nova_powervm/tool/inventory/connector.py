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

"""Command ``connector``."""

import argparse
import json

from nova_powervm.lpar import volumes
from nova_powervm.ops import volumes as volume_ops
from nova_powervm.powervm import plugins
from nova_powervm.powervm import volume as volume_drivers
from nova_powervm.tool.inventory import base
from nova_powervm.tool.inventory import host_reader


class Connector(base.Command):
    """Print what Cinder has to know of this host to map volumes to it.

    That is the name of the compute service, and the Fibre Channel ports of
    the Virtual I/O Servers, as JSON. "nova-manage volume_attachment refresh"
    needs it in a file, and "nova-manage volume_attachment get_connector" does
    not know these ports. Run this on the compute node of the server. When to
    use both is on the page "Volumes".

    The exit code is 0, or 1 if the host cannot connect volumes now.
    """

    examples = """
        # Write the file for "nova-manage volume_attachment refresh"
        nova-powervm-inventory connector > connector.json
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the options of this command."""
        parser = super().get_parser(prog_name)
        host_reader.add_live_host_options(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Print the connector."""
        config = self.app.config
        with (
            host_reader.asking(self.app, parsed_args) as server,
            host_reader.logged_on(server) as (adapter, managed),
        ):
            loaded = plugins.load_volume_drivers(
                volume_drivers.Context(adapter, managed, config.settings)
            )
            ports = volume_ops.VolumeOps(loaded).connector()
        connector = volumes.describe_host(
            config.nodename, config.address, ports
        )
        json.dump(connector, self.app.stdout, indent=2)
        self.app.stdout.write('\n')
        return 0
