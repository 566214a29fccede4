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

"""Devices that an operator takes out of use, and gives back."""

import contextlib
import io
from unittest import mock

from nova import context as nova_context

from nova_powervm.devices import names
from nova_powervm.powervm.check import slot_trial
from nova_powervm.tool import exit_codes
from nova_powervm.tool.check import app as check
from tests import proofs
from tests.functional import base
from tests.functional import move_sites
from tests.functional import test_commands

MARK = names.QUARANTINED_TRAIT
FAILED = names.quarantine_trait('FAILED')
CLEANING = names.quarantine_trait('CLEANING')


class QuarantineTestCase(test_commands.CommandTestCase):
    """Runs the commands beside nova-compute, with real Placement."""

    inventory = move_sites.INVENTORY

    def setUp(self):
        super().setUp()
        self.start_host()

    def forget(self):
        super().forget()
        for provider in self.slot_providers().values():
            self._set_provider_traits(
                provider['uuid'],
                [
                    trait
                    for trait in self._get_provider_traits(provider['uuid'])
                    if not trait.startswith(MARK)
                ],
            )
            self.reserve_all(provider['uuid'], 0)
        self.read_anew()

    def read_anew(self, host='host1'):
        """Let Nova read all providers, and update them twice."""
        manager = self.computes[host].manager
        manager.reportclient._association_refresh_time.clear()
        for _ in range(2):
            manager.update_available_resource(nova_context.get_admin_context())

    def reserve_all(self, uuid, number):
        """Set what is reserved of a provider."""
        for name in self._get_provider_inventory(uuid):
            self.reserve(uuid, name, number)

    def state(self, index):
        """Return the marks of a slot's provider, and what is reserved."""
        uuid = self.slot_providers()[index]['uuid']
        (record,) = self._get_provider_inventory(uuid).values()
        marks = {
            trait
            for trait in self._get_provider_traits(uuid)
            if trait.startswith(MARK) or trait == names.WITHDRAWN_TRAIT
        }
        return marks, record['reserved']

    def try_slot(self, index, meanwhile=lambda: None):
        """Try a slot with an LPAR; return exit code and output.

        :param meanwhile: Is called while the LPAR runs with the slot.
        """
        args = ['partition', '--yes', '--slot', f'{index:08X}']
        stop = slot_trial.SlotTrial.stop

        def stop_later(this, *, hard):
            meanwhile()
            return stop(this, hard=hard)

        with (
            mock.patch.object(slot_trial.SlotTrial, 'stop', stop_later),
            contextlib.redirect_stdout(io.StringIO()) as out,
            contextlib.redirect_stderr(out),
        ):
            code = check.main(['--config-file', self.nova_conf(), *args])
        return code, out.getvalue()

    def act(self, *command, **options):
        """Run a command that succeeds."""
        code, _, err = self.run_command(*command, **options)
        self.assertEqual(0, code, err)
        return err

    def of_class(self, name):
        """Return the DRC indexes of the slots of a resource class."""
        return sorted(
            index
            for index, provider in self.slot_providers().items()
            if name in self._get_provider_inventory(provider['uuid'])
        )

    def gpus(self):
        return self.of_class('CUSTOM_GPU')


class QuarantineTest(QuarantineTestCase):
    @proofs.proves('device.quarantine')
    def test_device_is_taken_out_of_use_until_it_is_restored(self):
        self.tell_stories()

    def story_free_device_is_withheld_over_restarts_and_offered_again(self):
        index = self.gpus()[0]
        for code in ('CLEANING', 'FAILED'):
            self.act('quarantine', f'{index:08X}', '--reason', code)
        self.assertEqual(({MARK, FAILED}, 1), self.state(index))

        self.read_anew()
        self.restart_host()
        self.restart_host(inventory='{}')
        self.read_anew()
        self.assertEqual(({MARK, FAILED}, 1), self.state(index))
        self.restart_host(inventory=self.inventory)
        self.read_anew()
        self.assertEqual(({MARK, FAILED}, 1), self.state(index))
        _, rows = self.rows('show')
        (row,) = [row for row in rows if row['Slot'] == f'{index:08X}']
        self.assertIn('in quarantine: the device is defective', str(row))

        found = []

        def restart_and_restore():
            self.restart_host()
            self.read_anew()
            found.append(self.state(index))
            self.act('restore', f'{index:08X}')
            self.read_anew()
            found.append(index in self.slot_providers())

        code, out = self.try_slot(index, restart_and_restore)
        self.assertEqual(exit_codes.SUCCESS, code, out)
        self.assertEqual([({MARK, FAILED}, 1), False], found)
        self.read_anew()
        self.assertEqual((set(), 0), self.state(index))
        self.act('quarantine', f'{index:08X}', '--reason', 'FAILED')
        code, out = self.try_slot(self.gpus()[1])
        self.assertEqual(exit_codes.TROUBLE, code, out)
        self.assertRegex(out, 'offers it(?s:.)*Placement has it to give away')

        self.act('restore', f'{index:08X}')
        self.assertEqual(({names.WITHDRAWN_TRAIT}, 1), self.state(index))
        self.read_anew()
        self.assertEqual((set(), 0), self.state(index))

    def story_commands_reach_nova_that_does_not_refresh_its_providers(self):
        """0 is for ever; a long interval is the same for as long."""
        self.flags(resource_provider_association_refresh=0, group='compute')
        self.read_anew()
        index, other = self.gpus()[:2]
        manager = self.computes['host1'].manager
        for each in (index, other):
            self.act('quarantine', f'{each:08X}', '--reason', 'FAILED')
        for _ in range(2):
            self._run_periodics()
            self.assertEqual(({MARK, FAILED}, 1), self.state(index))
            self.assertEqual(({MARK, FAILED}, 1), self.state(other))

        # A restored device waits for nova-compute ...
        self.act('restore', f'{index:08X}')
        for _ in range(2):
            self._run_periodics()
        self.assertEqual(({names.WITHDRAWN_TRAIT}, 1), self.state(index))
        # ... until it gets a SIGHUP.
        manager.reset()
        for _ in range(2):
            self._run_periodics()
        self.assertEqual((set(), 0), self.state(index))
        self.assertEqual(({MARK, FAILED}, 1), self.state(other))

    def story_device_in_use_keeps_its_server_and_is_not_offered_again(self):
        server = self.boot(base.gpu_groups(1))
        (index,) = self.allocated_slots(server)
        self.act('quarantine', f'{index:08X}', '--reason', 'SUSPECT')
        self.read_anew()
        self.assertEqual([index], [*self.lpar(server).slots])
        self.api.post_server_action(server['id'], {'reboot': {'type': 'HARD'}})
        self._wait_for_server_parameter(
            server, {'status': 'ACTIVE', 'OS-EXT-STS:task_state': None}
        )
        self.assertEqual([index], [*self.lpar(server).slots])

        self._delete_server(server)
        self.read_anew()

        marks, reserved = self.state(index)
        self.assertEqual((True, 1), (MARK in marks, reserved))
        others = [self.boot(base.gpu_groups(1)) for _ in self.gpus()[1:]]
        for other in others:
            self.assertNotIn(index, self.lpar(other).slots)

    def story_unused_one_time_use_device_has_to_be_released_afterwards(self):
        index = self.of_class(move_sites.SCRATCH)[0]
        slot = f'{index:08X}'
        code, _, err = self.run_command(
            'quarantine', slot, '--reason', 'CLEANING'
        )
        self.assertEqual(2, code)
        self.assertIn(f'one-time-use devices {slot} were not used yet', err)
        self.assertEqual((set(), 0), self.state(index))
        code, _, err = self.run_command(
            'quarantine', slot, '--reason', 'CLEANING', answer='n\n'
        )
        self.assertEqual((2, (set(), 0)), (code, self.state(index)))

        self.act('quarantine', slot, '--reason', 'CLEANING', answer='y\n')
        self.assertEqual(({MARK, CLEANING}, 1), self.state(index))
        code, _, err = self.run_command('release', slot, '--yes')
        self.assertEqual(2, code)
        self.assertIn('it is in quarantine', err)
        self.act('restore', slot)
        self.read_anew()
        self.assertEqual((set(), 1), self.state(index))
        self.act('release', slot, '--yes')
        self.assertEqual((set(), 0), self.state(index))
