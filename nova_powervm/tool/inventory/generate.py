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

"""Command ``generate``."""

import argparse
import contextlib
import os
import tempfile

from nova_powervm import exception
from nova_powervm.devices import policy
from nova_powervm.inventory_file import parse
from nova_powervm.tool.inventory import base
from nova_powervm.tool.inventory import file_generator
from nova_powervm.tool.inventory import host_reader
from nova_powervm.tool.inventory import pci_ids
from nova_powervm.tool.inventory import placement_client
from nova_powervm.tool.inventory import survey as surveys

#: Only the owner can write the file, because it decides which devices
#: instances get. nova-compute reads it as a member of the file's group.
_MODE = 0o640


class Generate(base.Command):
    """Generate an inventory file from the devices of the host.

    The file has a paragraph for each type of free GPU, NVMe drive,
    cryptographic adapter and accelerator. Paragraphs for network and fabric
    adapters, storage controllers, and devices of an unknown kind are commented
    out, with the reason. Devices that are owned by a partition or in SR-IOV
    mode are only mentioned in a comment.
    """

    examples = """
        # Print the file
        nova-powervm-inventory generate

        # Write the file, with the classes CUSTOM_GPU, CUSTOM_NVME and so on
        nova-powervm-inventory generate --resource-class auto \\
            --output /etc/nova/inventory.yaml

        # Use a stored response of the REST API
        nova-powervm-inventory generate --system-xml system.xml
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the options of this command."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--resource-class',
            metavar='CLASS',
            help='resource class of all paragraphs, or auto for CUSTOM_GPU, '
            'CUSTOM_NVME, CUSTOM_CRYPTO, FPGA or CUSTOM_ACCELERATOR, '
            'depending on the device (default: none, which means '
            f'{policy.DEFAULT_RESOURCE_CLASS})',
        )
        parser.add_argument(
            '--output',
            metavar='FILE',
            help='write to this file, with mode 0640, instead of standard '
            'output',
        )
        parser.add_argument(
            '--force',
            action='store_true',
            help='replace an existing file',
        )
        host_reader.add_host_options(parser)
        placement_client.add_node_option(parser, optional=True)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Print or write the file."""
        resource_class = parsed_args.resource_class
        if resource_class not in (None, file_generator.AUTO_CLASS):
            problem = policy.problem_with_resource_class(resource_class)
            if problem:
                raise exception.ConfigurationError(
                    reason=f'--resource-class: {problem}; or auto'
                )
        if parsed_args.output and not parsed_args.force:
            # Fail before the host is read; write() checks again.
            _refuse_existing(parsed_args.output)
        pci_names = pci_ids.read_names()
        reading = host_reader.read_host(self.app, parsed_args)
        tree = surveys.read_optional_tree(
            self.app, parsed_args, reading.system.io_slots
        )
        text = file_generator.generate_file(
            reading,
            pci_names,
            resource_class,
            tree.instance_lpars if tree else (),
        )
        if not parsed_args.output:
            self.app.stdout.write(text)
            return 0
        write(parsed_args.output, text, parsed_args.force)
        count = len(parse(text, parsed_args.output).paragraphs)
        print(
            f'{parsed_args.output} has {count} paragraph(s) now. Its mode is '
            '0640: let the group of nova-compute read it, for example with '
            f'chgrp nova {parsed_args.output}',
            file=self.app.stdout,
        )
        return 0


def write(path: str, text: str, replace: bool) -> None:
    """Write a file that only its owner can change.

    A reader finds the old file or the new one, and no part of one. Owner and
    group of the old one are kept if this user is allowed to.

    :param replace: Whether to replace an existing file.
    :raises exception.ConfigurationError: The file exists already.
    :raises OSError: The file can't be written.
    """
    target = os.path.realpath(path)
    try:
        descriptor, temporary = tempfile.mkstemp(
            prefix=os.path.basename(target), dir=os.path.dirname(target)
        )
    except OSError as error:
        # The user did not choose the name of the temporary file.
        raise OSError(error.errno, error.strerror, path) from error
    try:
        with open(descriptor, 'w', encoding='utf-8') as stream:
            os.fchmod(descriptor, _MODE)
            with contextlib.suppress(FileNotFoundError, PermissionError):
                old = os.stat(target)
                os.fchown(descriptor, old.st_uid, old.st_gid)
            stream.write(text)
        if replace:
            os.replace(temporary, target)
        else:
            _refuse_existing(path)
            # Unlike a rename, this fails if there is a file by now.
            os.link(temporary, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def _refuse_existing(path: str) -> None:
    if os.path.lexists(path):
        raise exception.ConfigurationError(
            reason=f'{path} exists already. Replace it with --force, or '
            'choose another --output.'
        )
