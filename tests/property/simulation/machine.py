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

"""The state machine: all rules, and those of nova-compute itself."""

from hypothesis import stateful
from hypothesis import strategies as st

from tests.property.simulation import base_machine
from tests.property.simulation import checks
from tests.property.simulation import inventory
from tests.property.simulation import move_rules
from tests.property.simulation import operator_rules


class ProcessRules(base_machine.BaseMachine):
    """Rules that start and end nova-compute, and let it work."""

    @stateful.initialize(
        once=st.booleans(), is_pool=st.sampled_from((False, True, True))
    )
    def start_both(self, once, is_pool):
        if is_pool:
            self.world.share_disks()
        for node in self.world.nodes:
            content = inventory.Content()
            node.file.write(content.changed(inventory.GPU, once=once))
            assert self.world.start(node)
            self.checked_cycle(node)
            self.add_foreign(node)
        self.done('start both')

    @stateful.rule(
        number=base_machine.NODES,
        trouble=base_machine.TROUBLE,
        power_loss=st.booleans(),
    )
    def restart(self, number, trouble, power_loss):
        node = self.world.nodes[number]
        was_good = node.file.content.broken != 'torn'
        node.crash()
        if power_loss:
            for lpar in node.host.lpars.values():
                lpar.state = 'not activated'
        trouble = self.trouble(node, trouble)
        started = self.world.start(node, trouble)
        if started and not (trouble and trouble.done):
            checks.after_cycle(self.world, node)
        if trouble is None and was_good:
            assert node.compute is not None
        self.done('restart', node, trouble)

    @stateful.precondition(lambda self: len(self.running()) > 1)
    @stateful.rule(number=base_machine.NODES)
    def stop(self, number):
        self.world.nodes[number].crash()
        self.done('stop')

    @stateful.precondition(lambda self: self.running())
    @stateful.rule(
        data=st.data(),
        trouble=base_machine.TROUBLE,
        fresh=st.booleans(),
    )
    def cycle(self, data, trouble, fresh):
        node = base_machine.pick(data, self.running())
        trouble = self.trouble(node, trouble)
        if fresh:
            node.compute.forget_providers()
        with self.world.troubled(node, trouble):
            went_well = self.world.cycle(node)
        if went_well and not (trouble and trouble.done):
            checks.after_cycle(self.world, node)
        if trouble is None and not went_well:
            self.must_cycle(node)
        self.done('cycle', node, trouble)

    @stateful.precondition(lambda self: self.running())
    @stateful.rule(data=st.data())
    def quiet(self, data):
        """Run three cycles without changes."""
        self.settle(base_machine.pick(data, self.running()))
        self.done('quiet')


class Simulation(
    ProcessRules,
    move_rules.MoveRules,
    operator_rules.RepairRules,
    operator_rules.CleaningRules,
    operator_rules.HostRules,
    operator_rules.ProviderRules,
):
    """All rules."""


class CleaningSimulation(
    ProcessRules,
    operator_rules.CleaningRules,
    operator_rules.RepairRules,
    operator_rules.HostRules,
    operator_rules.ProviderRules,
):
    """Devices that are used, cleaned, quarantined, restored and released."""


class MoveSimulation(
    ProcessRules, move_rules.MoveRules, operator_rules.RepairRules
):
    """Moves, with little that keeps them from succeeding."""
