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

"""The metrics of slots, and the file that has them."""

import dataclasses
import errno
import os
import pathlib
import stat
import tempfile
import threading
import unittest
import unittest.mock

from nova_powervm.devices import matching
from nova_powervm.devices import names
from nova_powervm.devices import plan
from nova_powervm.devices import slots
from nova_powervm.ops import metrics
from tests.promtool import queries
from tests.unit.devices import values

_OWNED = slots.Reason('owned', 'it is owned by partition db')


def entry(action=plan.Action.PUBLISH, reserved=0, traits=(), **changes):
    return plan.Entry(
        **{
            'action': action,
            'drc_index': values.INDEX,
            'name': values.NAME,
            'uuid': 'p1',
            'inventory': {'CUSTOM_GPU': values.record(reserved)},
            'traits': frozenset(traits),
            **changes,
        }
    )


def verdict(reason=None, index=values.INDEX, paragraphs=True):
    slot = values.slot(drc_index=index)
    return matching.Verdict(
        slot, (values.paragraph(),) if paragraphs else (), reason
    )


def count(entries=(), verdicts=(), allocated=()):
    return dict(
        metrics.count_slots(
            plan.Plan(tuple(entries), tuple(verdicts)), allocated
        )
    )


class CountTest(unittest.TestCase):
    def test_slot_has_its_state_and_the_code_of_the_reason(self):
        failed = {
            names.QUARANTINED_TRAIT,
            names.quarantine_trait('FAILED'),
        }
        burned = {names.ONE_TIME_USE_TRAIT}
        quarantine = plan.Action.QUARANTINE
        withdraw = plan.Action.WITHDRAW
        for row, reason, expected in (
            (entry(), None, ('offered', '')),
            (entry(uuid='held'), None, ('allocated', '')),
            (entry(uuid='held', owner='LPAR'), None, ('attached', '')),
            (entry(reserved=1), None, ('withdrawn', 'reserved')),
            (entry(reserved=1, traits=burned), None, ('burned', '')),
            (
                entry(uuid='held', reserved=1, traits=burned),
                None,
                ('allocated', ''),
            ),
            (
                entry(withdraw, 1, burned),
                _OWNED,
                ('burned', 'owned'),
            ),
            (entry(withdraw), _OWNED, ('withdrawn', 'owned')),
            (
                entry(withdraw, uuid='held'),
                _OWNED,
                ('withdrawn', 'owned'),
            ),
            (entry(withdraw), None, ('withdrawn', 'duplicate')),
            (
                entry(quarantine, 1, failed, uuid='held'),
                None,
                ('quarantined', 'FAILED'),
            ),
            (
                entry(quarantine, 1, failed | names.REPLACED_TRAITS),
                None,
                ('quarantined', 'REPLACED'),
            ),
        ):
            with self.subTest(expected=expected):
                self.assertEqual(
                    {('CUSTOM_GPU', 'gpus', *expected): 1},
                    count([row], [verdict(reason)], {'held'}),
                )

    def test_slot_that_nothing_offers_is_foreign(self):
        deleted = entry(plan.Action.DELETE)
        self.assertEqual(
            {('', 'gpus', 'foreign', 'owned'): 1},
            count([deleted], [verdict(_OWNED)]),
        )
        self.assertEqual(
            {('', '', 'foreign', 'owned'): 2},
            count([], [verdict(_OWNED, n, paragraphs=False) for n in (1, 2)]),
        )

    def test_provider_of_gone_slot_is_counted(self):
        gone = entry(plan.Action.WITHDRAW)
        self.assertEqual(
            {('CUSTOM_GPU', '', 'withdrawn', 'gone'): 1}, count([gone])
        )
        self.assertEqual({}, count([entry(plan.Action.DELETE)]))

    def test_slot_with_two_providers_is_counted_once(self):
        twins = [
            entry(),
            dataclasses.replace(entry(plan.Action.DELETE), uuid='p2'),
        ]
        self.assertEqual(
            {('CUSTOM_GPU', 'gpus', 'offered', ''): 1},
            count(twins, [verdict()]),
        )


class WrittenMetricsTest(unittest.TestCase):
    NASTY = 'a "paragraph"\\ of\ntwo lines'

    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = pathlib.Path(directory.name, 'powervm.prom')

    def family(self, number):
        return metrics.make_slot_family(
            'powervm_slots', 'c1', {('', self.NASTY, 'foreign', ''): number}
        )

    def test_file_has_any_label_in_the_format_of_prometheus(self):
        metrics.write(str(self.path), [self.family(3)])
        (sample,) = queries.samples(self.path.read_text())
        self.assertEqual(
            (self.NASTY, 3), (sample.labels['paragraph'], sample.value)
        )

    def test_file_can_be_read_by_all_with_any_umask(self):
        self.addCleanup(os.umask, os.umask(0o077))
        metrics.write(str(self.path), [self.family(3)])
        self.assertEqual(0o644, stat.S_IMODE(self.path.stat().st_mode))

    def test_failed_write_keeps_the_file_and_names_it(self):
        metrics.write(str(self.path), [self.family(3)])
        with (
            unittest.mock.patch.object(
                metrics.os, 'replace', side_effect=OSError(errno.EIO, 'broken')
            ),
            self.assertRaises(OSError) as caught,
        ):
            metrics.write(str(self.path), [self.family(4)])
        self.assertEqual(str(self.path), caught.exception.filename)
        self.assertIn(' 3.0', self.path.read_text())
        self.assertEqual([self.path], [*self.path.parent.iterdir()])

    def test_links_in_the_directory_lead_to_no_other_file(self):
        """The owner of the directory had any file of nova's overwritten."""
        secret = self.path.with_name('secret')
        secret.write_text('of nova')
        secret.chmod(0o600)
        new = f'{self.path}.new'
        for name in (new, f'{new}.{os.getpid()}.{threading.get_ident()}'):
            os.symlink(secret, name)
        os.symlink(secret, self.path)
        metrics.write(str(self.path), [self.family(3)])
        self.assertFalse(self.path.is_symlink())
        self.assertEqual('of nova', secret.read_text())
        self.assertEqual(0o600, stat.S_IMODE(secret.stat().st_mode))
