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

"""The command show."""

import dataclasses
import datetime
import io
import pathlib
import re
from unittest import mock

import os_traits

from nova_powervm import printable
from nova_powervm.devices import host_values
from nova_powervm.devices import names
from nova_powervm.devices import policy as policies
from nova_powervm.lpar import partition
from nova_powervm.tool import errors
from nova_powervm.tool.inventory import clouds
from nova_powervm.tool.inventory import host_reader
from nova_powervm.tool.inventory import pci_ids
from nova_powervm.tool.inventory import show
from nova_powervm.tool.inventory import slot_rows
from nova_powervm.tool.inventory import survey as surveys
from nova_powervm.tool.rules import cyborg_slots
from nova_powervm.tool.rules import left_moves
from nova_powervm.tool.rules import placement_tree
from nova_powervm.tool.rules import unconfirmed_moves
from tests import proofs
from tests.unit.devices import values
from tests.unit.tool.inventory import base
from tests.unit.tool.inventory import test_reading

#: Its first digit is not that of its LPAR: PowerVM clears a bit.
INSTANCE = 'f0a1c2d3-0000-4000-8000-000000000001'
LPAR = partition.lpar_uuid(INSTANCE)
ROOT = placement_tree.Provider('root', 'host1', None, 1)
POLICY = policies.Policy((values.paragraph(line=3),), 'inv.yaml')
DB = {'owner': values.client(name='db')}
OWNED = {'owner': values.client(LPAR, name='instance-00000001')}
BURNED = {'reserved': 1, 'traits': [os_traits.HW_PCI_ONE_TIME_USE]}


def provider(reserved=0, total=1, traits=(), consumers=(), **changes):
    """Make the provider of the usual slot as Placement has it."""
    return placement_tree.Provider(
        **{
            'uuid': 'p1',
            'name': values.NAME,
            'parent_uuid': 'root',
            'generation': 1,
            'inventory': {
                'CUSTOM_GPU': {'total': total, 'reserved': reserved}
            },
            'traits': frozenset(traits),
            'consumers': {c: {'CUSTOM_GPU': 1} for c in consumers},
            **changes,
        }
    )


def survey(*slots, below=None, policy=POLICY, owners_known=True):
    """Bring together these slots and providers."""
    managed = host_values.ManagedSystem(
        'host', 'u', 'm', 0, 0, 0, 0, 0, 0, tuple(slots)
    )
    reading = host_reader.HostReading(managed, 'here', owners_known)
    tree = None
    if below is not None:
        tree = placement_tree.Tree('host1', ROOT, tuple(below))
    return surveys.make_survey(policy, reading, tree, 'host1')


def row_of(*slots, **options):
    """Give the only row."""
    (row,) = slot_rows.make_rows(
        survey(*slots, **options), pci_ids.DeviceNames()
    )
    return row


class HostileNameTest(base.ToolTestCase):
    """Before, names acted on the terminal, and drew lines of the tree."""

    def show(self, *arguments):
        """Show the slots of a capture whose adapters have a hostile name."""
        text = pathlib.Path(base.capture('sys_with_sriov.txt')).read_text()
        named = re.sub(
            r'(<SlotDynamicReconfigurationConnectorName [^>]*>)[^<]*',
            r'\1P1&#x9b;31m&#10;forged',
            text,
        )
        self.assertNotEqual(text, named)
        path = self.write('hostile.xml', named)
        result = self.run_tool('show', '--system-xml', path, *arguments)
        self.assertIn(r'P1\x9b31m\nforged', result.out)
        return result.out

    def test_table_and_records_are_printable(self):
        for arguments in ((), ('--long',), ('-f', 'value')):
            for line in self.show('--slot', '21010020', *arguments).split(
                '\n'
            ):
                self.assertTrue(line.isprintable(), line)
                self.assertFalse(line.startswith('forged'), line)

    def test_tree_has_no_line_of_a_name(self):
        row = row_of(values.slot(drc_name='P1\nforged'))
        lines = list(show.draw_tree('host1', [row]))
        self.assertTrue(any(r'P1\nforged' in line for line in lines), lines)
        self.assertTrue(all(line.isprintable() for line in lines), lines)

    def test_stream_escapes_all_but_line_breaks(self):
        out = io.StringIO()
        stream = printable.PrintableStream(out)
        print('a\x1b[2J', 'b', sep='\n', file=stream)
        self.assertEqual('a\\x1b[2J\nb\n', out.getvalue())
        self.assertFalse(stream.isatty())


class ReasonTest(base.ToolTestCase):
    """The reasons are the plan's own."""

    def test_unoffered_slot_has_its_reason(self):
        denied = policies.Paragraph(
            'no-gpu', {'class': '0302'}, allow=False, line=7
        )
        denying = policies.Policy((*POLICY.paragraphs, denied), 'inv.yaml')
        for changes, reason, policy in (
            ({'vendor_id': 0xFFFF}, 'the slot is empty', POLICY),
            ({'sriov': True}, 'SR-IOV mode', POLICY),
            ({'vendor_id': 1}, 'no paragraph of inv.yaml identifies', POLICY),
            (DB, 'owned by partition db', POLICY),
            ({}, "paragraph 'no-gpu' (line 7)", denying),
        ):
            with self.subTest(reason=reason):
                row = row_of(values.slot(**changes), policy=policy)
                self.assertFalse(row.offered)
                self.assertIn(reason, row.reason)
                self.assertEqual(f'not offered: {row.reason}', row.offer)

    def test_offered_slot_names_class_paragraph_and_unknown_owner(self):
        row = row_of(values.slot())
        self.assertTrue(row.offered)
        self.assertEqual(("CUSTOM_GPU by 'gpus'", ''), (row.offer, row.reason))
        row = row_of(values.slot(), owners_known=False)
        self.assertEqual('not known', row.owner)
        self.assertIn('owner not known', row.offer)


class PlacementTest(base.ToolTestCase):
    """What Placement holds."""

    def state(self, *slots, **changes):
        return row_of(*(slots or [values.slot()]), below=[provider(**changes)])

    def test_state_follows_provider(self):
        withdrawn = {'reserved': 1, 'traits': [names.WITHDRAWN_TRAIT]}
        for changes, state in (
            ({}, 'free'),
            ({'reserved': 1}, 'reserved'),
            (BURNED, 'needs cleaning'),
            ({**BURNED, 'consumers': [INSTANCE]}, f'allocated to {INSTANCE}'),
            (withdrawn, 'withdrawn'),
        ):
            with self.subTest(state=state):
                self.assertEqual(state, self.state(**changes).state)
        slot = values.slot()
        self.assertEqual('not in Placement yet', row_of(slot, below=[]).state)
        self.assertEqual('', row_of(slot).state)

    def test_used_device_that_a_partition_has_is_not_to_be_cleaned(self):
        row = self.state(values.slot(**DB), **BURNED)
        self.assertEqual('used, and partition db has it', row.state)
        self.assertFalse(row.needs_cleaning)
        self.assertTrue(self.state(**BURNED).needs_cleaning)

    def test_consumer_identifies_the_lpar_of_an_instance(self):
        row = self.state(values.slot(**OWNED), consumers=[INSTANCE])
        self.assertTrue(row.offered)
        self.assertEqual('instance-00000001', row.lpar_name)
        self.assertEqual('allocated to instance-00000001', row.state)
        cells = {c: of(row) for c, of in slot_rows.PLACEMENT_COLUMNS.items()}
        self.assertEqual([INSTANCE], cells['Consumers'])
        self.assertEqual(
            'it is owned by partition instance-00000001, which Nova may run: '
            'only Placement knows',
            row_of(values.slot(**OWNED)).reason,
        )

    def test_burned_device_has_the_time_of_its_burn(self):
        at = datetime.datetime(2026, 11, 24, 9, 30, tzinfo=datetime.UTC)
        time = '2026-11-24 09:30:00'
        for changes, burned_at, words in (
            (BURNED, time, f'needs cleaning, burned {time} UTC'),
            ({**BURNED, 'written_at': None}, None, 'needs cleaning'),
            ({}, None, 'free'),
            (
                {**BURNED, 'consumers': [INSTANCE]},
                time,
                f'allocated to {INSTANCE}',
            ),
        ):
            row = self.state(**{'written_at': at, **changes})
            self.assertEqual(
                (burned_at, words), (row.burned_at, row.availability)
            )

    def test_server_has_the_slot_of_its_lpar_or_of_its_allocation(self):
        owned = values.slot(owner=values.client(LPAR))
        root = dataclasses.replace(ROOT, consumers={INSTANCE: {'VCPU': 1}})
        for slot, below, servers in (
            (values.slot(), [provider(consumers=[INSTANCE])], (INSTANCE,)),
            (owned, [provider(consumers=[INSTANCE])], (INSTANCE,)),
            (owned, [], (INSTANCE,)),
            (values.slot(), [provider()], ()),
        ):
            found = survey(slot, below=below)
            tree = dataclasses.replace(found.tree, root=root)
            (row,) = slot_rows.make_rows(
                dataclasses.replace(found, tree=tree), pci_ids.DeviceNames()
            )
            self.assertEqual(servers, row.servers)
            self.assertEqual((), row_of(slot).servers)

    def test_unavailable_slot_has_state_and_reason(self):
        row = self.state(values.slot(**DB), consumers=[INSTANCE])
        self.assertEqual(f'allocated to {INSTANCE}', row.state)
        self.assertEqual(
            f'allocated to {INSTANCE}; not offered: it is owned by partition '
            'db, which Nova does not run',
            row.availability,
        )

    @proofs.proves('V24')
    def test_source_tells_nova_from_cyborg(self):
        source = slot_rows.PLACEMENT_COLUMNS['Source']
        held = values.slot(**OWNED)
        row = self.state(held, consumers=[INSTANCE])
        self.assertEqual('COMPUTE', source(row))
        cyborg = provider(
            name=f'host1_{values.INDEX:08X}',
            traits=[
                os_traits.OWNER_CYBORG,
                f'CUSTOM_POWERVM_IOSLOT_DRC_INDEX_{values.INDEX:08X}',
            ],
            consumers=[INSTANCE],
        )
        row = row_of(held, below=[cyborg], policy=policies.Policy())
        self.assertEqual('ACCELERATOR', source(row))
        self.assertEqual('instance-00000001', row.lpar_name)
        self.assertEqual('allocated to instance-00000001 by Cyborg', row.state)
        for other in ([], [provider()]):
            row = row_of(held, below=other, policy=policies.Policy())
            self.assertIsNone(source(row))

    def test_provider_whose_slot_is_gone_has_a_row(self):
        row = row_of(below=[provider()])
        self.assertFalse(row.offered)
        self.assertIn('no longer reports the slot', row.reason)
        self.assertEqual(values.INDEX, row.drc_index)

    def test_slot_with_two_providers_has_two_rows(self):
        short = provider(uuid='p2', name='PowerVM IOSlot 21010020')
        found = list(
            slot_rows.make_rows(
                survey(values.slot(), below=[provider(), short]),
                pci_ids.DeviceNames(),
            )
        )
        self.assertEqual({'p1', 'p2'}, {row.provider.uuid for row in found})

    def test_leftover_of_move_gives_state_and_remedy(self):
        left = left_moves.SlotMove('left over', ('clean', 'up'))
        remedy = slot_rows.PLACEMENT_COLUMNS['Remedy']
        slots = values.slot(), values.slot(drc_index=1)
        for consumers, state in (([INSTANCE], 'left over'), ([], 'free')):
            found = survey(*slots, below=[provider(consumers=consumers)])
            found = dataclasses.replace(found, slot_moves={values.INDEX: left})
            rows = slot_rows.make_rows(found, pci_ids.DeviceNames())
            other, row = sorted(rows, key=lambda row: row.drc_index)
            self.assertEqual(
                (state, ['clean', 'up']), (row.state, remedy(row))
            )
            self.assertEqual([], remedy(other))
        cyborg = cyborg_slots.CyborgSlot(1, None, 'free', ('enable',))
        row = dataclasses.replace(row, cyborg=cyborg)
        self.assertEqual(('clean', 'up', 'enable'), row.remedy)

    def test_tree_shows_state_place_and_traits(self):
        found = survey(
            values.slot(**OWNED),
            values.slot(drc_index=1, drc_name='P1-C1'),
            values.slot(drc_index=2, sriov=True),
            below=[provider(consumers=[INSTANCE])],
        )
        self.assert_drawn(
            """\
host1 (compute node)
├── PowerVM IOSlot host1 00000001
│   CUSTOM_GPU: 1, not in Placement yet
│   GPU (10DE:1EB8) at P1-C1
│   traits: CUSTOM_FAST, OWNER_NOVA, and 8 that say what it is and where
└── PowerVM IOSlot host1 21010020
    CUSTOM_GPU: 1, allocated to instance-00000001
    GPU (10DE:1EB8) at U78CB.001.WZS0JZB-P1-C2
    traits: CUSTOM_FAST, OWNER_NOVA, and 8 that say what it is and where""",
            found,
        )
        cyborg = provider(
            name=names.cyborg_provider_name('host1', values.INDEX),
            traits=[os_traits.OWNER_CYBORG, names.CYBORG_TRAIT],
        )
        self.assert_drawn(
            """\
host1 (compute node)
└── PowerVM Cyborg IOSlot host1 21010020
    CUSTOM_GPU: 1, Cyborg: free
    GPU (10DE:1EB8) at U78CB.001.WZS0JZB-P1-C2
    traits: CUSTOM_POWERVM_CYBORG, OWNER_CYBORG""",
            survey(values.slot(), below=[cyborg], policy=policies.Policy()),
        )

    def assert_drawn(self, expected, found):
        rows = slot_rows.make_rows(found, pci_ids.DeviceNames())
        drawn = show.draw_tree('host1', rows)
        self.assertEqual(expected, '\n'.join(drawn))


class SlotNameTest(base.ToolTestCase):
    def test_slot_is_named_by_index_location_or_wildcard(self):
        slot = values.slot()
        for name, expected in (
            ('21010020', True),
            ('U78CB.001.WZS0JZB-P1-C2', True),
            ('C2', True),
            ('P1-C2', True),
            ('U78CB*', True),
            ('2101????', True),
            ('2', False),
            ('C', False),
            ('C22', False),
            ('P1', False),
        ):
            with self.subTest(name=name):
                is_named = host_reader.is_named(
                    name, slot.drc_index, slot.drc_name
                )
                self.assertEqual(expected, is_named)

    def test_locations_are_sorted_by_number(self):
        slots = [
            values.slot(drc_index=n, drc_name=f'P1-C{n}') for n in (10, 9, 1)
        ]
        found = slot_rows.make_rows(survey(*slots), pci_ids.DeviceNames())
        self.assertEqual([1, 9, 10], [row.drc_index for row in found])


class HostTest(base.HostTestCase):
    def test_json_lists_slots_with_owner_and_reason(self):
        listed = self.succeed('show', '-f', 'json').json
        self.assertEqual(14, len(listed))
        by_slot = {row['Slot']: row for row in listed}
        gpu = {
            'Location': 'U78D2.001.EMU0001-P1-C3',
            'Paragraph': 'gpus',
            'Line': 1,
            'Resource Class': 'CUSTOM_GPU',
            'Offered': True,
        }
        self.assertLessEqual(gpu.items(), by_slot['21010020'].items())
        self.assertIn('CUSTOM_TESLA_V100', by_slot['21010020']['Traits'])
        owned = {
            'Owner': 'VIOS vios1',
            'Reason': 'it is owned by VIOS vios1',
            'Offered': False,
        }
        self.assertLessEqual(owned.items(), by_slot['21010011'].items())

    def test_table_fits_120_columns_and_record_has_all(self):
        lines = self.succeed('show').out.splitlines()
        self.assertLessEqual(max(map(len, lines)), 120)
        self.assertEqual('| Slot     | Location ', lines[1][:22])
        self.assertNotIn('Traits', lines[1])
        shown = self.succeed('show', '--long').out
        records = shown.split('\n\n')
        self.assertEqual(14, len(records))
        (gpu,) = self.succeed('show', '--slot', '21010020', '-f', 'json').json
        (record,) = [r for r in records if '21010020' in r.splitlines()[0]]
        titles = [line[:21].strip() for line in record.splitlines()]
        self.assertEqual(list(gpu), [title for title in titles if title])
        for value in (*gpu['Traits'], gpu['Offer'], gpu['Location']):
            self.assertIn(value, record)

    def test_long_changes_only_tables_with_all_columns(self):
        (row,) = self.succeed('show', '--slot', 'C3', '-f', 'json').json
        for output in ('json', 'value', 'csv', 'yaml'):
            with self.subTest(output):
                arguments = ('show', '--slot', 'C3', '-f', output)
                short = self.succeed(*arguments).out
                self.assertEqual(short, self.succeed(*arguments, '--long').out)
                for trait in row['Traits']:
                    self.assertIn(trait, short)
                self.assertNotIn('None', short)
        columns = ('-c', 'Slot', '-c', 'Traits', '--sort-column', 'Slot')
        table = self.succeed('show', '--offered', '--long', *columns).out
        self.assertRegex(table, r'\| Slot +\| Traits ')
        self.assertIn('| CUSTOM_TESLA_V100 ', table)
        lines = self.succeed('show', '--offered', '-f', 'value', *columns).out
        self.assertIn('21010020 CUSTOM_POWERVM_IOSLOT_CLASS_0302 ', lines)
        self.assertEqual(4, len(lines.splitlines()))
        # Records are sorted, too.
        records = self.succeed('show', '--long', '--sort-column', 'Slot').out
        slots = [
            line for line in records.splitlines() if line.startswith('Slot ')
        ]
        self.assertEqual(14, len(slots))
        self.assertEqual(sorted(slots), slots)

    def test_unknown_slot_and_invalid_file_are_refused(self):
        (row,) = self.succeed('show', '--slot', 'P1-C3', '-f', 'json').json
        self.assertEqual('21010020', row['Slot'])
        error = self.error_of('show', '--slot', 'C77')
        self.assert_one_line(error, 'no slot C77')
        bad = self.write('bad.yaml', 'x: 1\n')
        self.assertIn('line 1, column 1', self.error_of('show', bad))

    def test_tree_lists_offered_slots(self):
        lines = self.succeed('show', '--tree').out.splitlines()
        self.assertEqual('host1 (compute node)', lines[0])
        drawn = [line for line in lines if 'PowerVM IOSlot host1' in line]
        self.assertEqual(4, len(drawn))

    def test_device_name_comes_from_pci_ids(self):
        for paths, name in (
            (['/nonexistent'], '3D Controller (10DE:1DB6)'),
            ([test_reading.LIST], 'Example Graphics EX90 (10DE:1DB6)'),
        ):
            with mock.patch.object(pci_ids, 'PATHS', paths):
                show = ('show', '--slot', 'C3', '-f', 'json')
                (row,) = self.succeed(*show).json
            self.assertEqual(name, row['Device'])

    def test_migrations_that_wait_in_vain_are_named_if_asked(self):
        at = datetime.datetime(2026, 11, 24, 9, 30, tzinfo=datetime.UTC)
        with mock.patch.object(clouds, 'NovaClient') as client:
            nova = client.return_value
            nova.find_finished.return_value = (
                unconfirmed_moves.FinishedMove('move', INSTANCE, at),
            )
            nova.read_servers.return_value = {
                INSTANCE: left_moves.Server('ACTIVE', None, 'host1')
            }
            self.assertNotIn('window', self.run_tool('show').err)
            result = self.run_tool('show', '--unconfirmed')
            nova.find_finished.assert_called_once_with('host1')
            self.assertEqual(0, result.status)
            self.assertIn('Migration move of server', result.err)
            self.assertIn('also confirms: no other server', result.err)
            nova.find_finished.side_effect = errors.ComputeApiError(
                reason='no answer'
            )
            result = self.run_tool('show', '--unconfirmed')
            self.assertNotEqual(0, result.status)
            self.assertIn('The compute API: no answer.', result.err)

    def test_unreachable_placement_is_a_warning(self):
        with open(self.conf, 'a') as conf:
            conf.write(
                '[placement]\nauth_type = none\n'
                'endpoint_override = http://127.0.0.1:1\n'
            )
        result = self.run_tool('show', '-f', 'json')
        self.assertEqual(0, result.status)
        self.assert_one_line(result.err, 'Placement does not answer')
        self.assertNotIn('State', result.json[0])
        self.succeed('show', '--no-placement')
