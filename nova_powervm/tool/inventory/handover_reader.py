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

"""Reads what the steps of a hand-over depend on."""

import argparse
import shlex
from collections.abc import Callable
from collections.abc import Iterable
from typing import TYPE_CHECKING
from typing import Any

from nova_powervm import exception
from nova_powervm import inventory_file
from nova_powervm.devices import policy as policies
from nova_powervm.devices import slots
from nova_powervm.tool import errors
from nova_powervm.tool.inventory import accelerator_client
from nova_powervm.tool.inventory import cloud_connection
from nova_powervm.tool.inventory import flavor_client
from nova_powervm.tool.inventory import host_reader
from nova_powervm.tool.inventory import placement_client
from nova_powervm.tool.inventory import server_client
from nova_powervm.tool.rules import cyborg_slots
from nova_powervm.tool.rules import file_edits
from nova_powervm.tool.rules import handover_facts
from nova_powervm.tool.rules import placement_tree

if TYPE_CHECKING:
    from nova_powervm.tool.inventory import base


def read_facts(
    app: 'base.App', parsed_args: argparse.Namespace
) -> handover_facts.Facts:
    """Read everything about the slot that the options name.

    What only later steps need does not have to be readable: the facts have the
    reason instead.

    :param app: The application, for its configuration.
    :param parsed_args: Arguments of the command.
    :raises exception.PowerVMError: The host or Placement can't be read, or
        there is no such slot.
    """
    reading = host_reader.read_host(app, parsed_args)
    slot = find_slot(parsed_args.device, reading)
    tree = placement_client.read_tree(app, parsed_args)
    openstack = cyborg_slots.openstack_command(parsed_args.os_cloud)
    return handover_facts.Facts(
        to=handover_facts.Manager(parsed_args.to),
        slot=slot,
        io_slots=reading.system.io_slots,
        tree=tree,
        nova=_read_file(parsed_args.file or app.config.inventory_file),
        cyborg=_read_file(parsed_args.accelerators),
        cloud=_read_cloud(app, parsed_args, tree),
        tool=_own_command(app),
        node_option=_node_option(parsed_args),
        openstack=openstack,
        wanted_class=parsed_args.resource_class,
        begin=_begin(app, parsed_args),
    )


def find_slot(name: str, reading: host_reader.HostReading) -> slots.Slot:
    """Find the slot that a user names.

    :param name: DRC index, location code, or the end of a location code.
    :param reading: The state of the host.
    :raises exception.ConfigurationError: There is none, or several.
    """
    found = [
        slot
        for slot in reading.system.io_slots
        if policies.value_matches(name.upper(), slot.drc_hex)
        or any(
            policies.value_matches(pattern, slot.drc_name or '')
            for pattern in (name, f'*-{name}')
        )
    ]
    if len(found) == 1:
        return found[0]
    which = (
        f'several slots {name}: {", ".join(map(str, found))}'
        if found
        else f'no slot {name}'
    )
    raise exception.ConfigurationError(
        reason=f'{reading.source} has {which}. "nova-powervm-inventory show" '
        'lists all slots'
    )


def _read_file(path: str) -> file_edits.SlotFile:
    """Read a file; a missing one is empty."""
    try:
        policy = inventory_file.load(path)
        text = inventory_file.read_excerpt(path)
    except exception.PolicyInvalid as error:
        first = str(error).splitlines()
        return file_edits.SlotFile(
            path, problem=' '.join(map(str.strip, first))
        )
    return file_edits.SlotFile(path, text.decode(), policy)


def _node_option(parsed_args: argparse.Namespace) -> str:
    if not parsed_args.node:
        return ''
    return f' --node {shlex.quote(parsed_args.node)}'


def _begin(app: 'base.App', parsed_args: argparse.Namespace) -> str:
    """Return this command with its options, apart from the class."""
    options: list[tuple[str, Iterable[Any]]] = [
        ('--to', [parsed_args.to]),
        ('--file', [parsed_args.file]),
        ('--accelerators', [parsed_args.accelerators]),
        ('--os-cloud', [parsed_args.os_cloud]),
        ('--node', [parsed_args.node]),
        ('--system-xml', parsed_args.system_xml or ()),
        ('--system-name', [parsed_args.system_name]),
        ('--timeout', [parsed_args.timeout]),
    ]
    words = ['handover', parsed_args.device]
    for option, values in options:
        for value in values:
            words += [option, str(value)] if value else []
    return f'{_own_command(app)} {shlex.join(words)}'


def _own_command(app: 'base.App') -> str:
    """Return this program with the options that its commands need."""
    options: list[tuple[str, Iterable[str]]] = [
        ('--config-file', app.options.config_files or ()),
        ('--config-dir', app.options.config_dirs or ()),
    ]
    words = [app.NAME]
    for option, values in options:
        for value in values:
            words += [option, value]
    return ' '.join(map(shlex.quote, words))


def _read_cloud(
    app: 'base.App',
    parsed_args: argparse.Namespace,
    tree: placement_tree.Tree,
) -> handover_facts.Cloud:
    """Ask the APIs for users, each of which may fail to answer."""
    conf, cloud = app.config.conf, parsed_args.os_cloud
    problems: dict[str, str] = {}

    def attempt(name: str, read: Callable[[], Any]) -> Any:
        try:
            return read()
        except exception.PowerVMError as error:
            problems[name] = str(error)
            return None

    records = attempt(
        'cyborg',
        lambda: accelerator_client.AcceleratorClient(cloud, conf).read(),
    )
    consumers = {c for each in tree.below for c in each.consumers}
    if records:
        consumers |= cyborg_slots.find_servers(tree, records)
    gone = attempt(
        'servers',
        lambda: server_client.ServerClient(cloud, conf).find_missing(
            consumers
        ),
    )
    flavors = attempt(
        'flavors',
        lambda: flavor_client.FlavorClient(cloud, conf).extra_specs([]),
    )
    if gone is None and records:
        # Without Nova's answer, nothing is known to be left over.
        problems['cyborg'] = problems['servers']
        records = None
    return handover_facts.Cloud(
        cyborg=cyborg_slots.CyborgFacts(records, gone or frozenset(), cloud)
        if records
        else None,
        cyborg_problem=problems.get('cyborg', ''),
        flavors=flavors,
        flavors_problem=problems.get('flavors', ''),
        gone=gone or frozenset(),
        image=attempt('image', lambda: _first(cloud, conf, 'image', 'images'))
        or '',
        network=attempt(
            'network', lambda: _first(cloud, conf, 'network', 'networks')
        )
        or '',
    )


def _first(cloud: str | None, conf: Any, service: str, noun: str) -> str:
    """Return the first name of what a service lists; empty without any."""
    with cloud_connection.translated(errors.CloudError, f'reading {noun}'):
        connection = cloud_connection.connect(cloud, conf)
        listed = getattr(getattr(connection, service), noun)()
        return min((each.name for each in listed if each.name), default='')
