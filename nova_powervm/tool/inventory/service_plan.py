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

"""The plan that nova-compute would make of the facts as they are now."""

from nova_powervm.devices import assessment
from nova_powervm.devices import host_values
from nova_powervm.devices import names
from nova_powervm.devices import plan as planned
from nova_powervm.devices import policy as policies
from nova_powervm.devices import slot_providers
from nova_powervm.tool.rules import placement_tree


def plan_as_service(
    policy: policies.Policy,
    managed: host_values.ManagedSystem,
    tree: placement_tree.Tree | None,
    node: str,
    style: str,
) -> planned.Plan:
    """Make the plan that nova-compute makes in its next update.

    The service asks Nova which LPARs belong to instances. Here an LPAR belongs
    to an instance if Placement knows the instance as a consumer on this host;
    one that a deleted instance left behind looks foreign.

    :param policy: The inventory file.
    :param managed: A reading of the host.
    :param tree: What Placement holds; None without it: a slot that an
        instance owns then counts as owned by a partition.
    :param node: Name of the compute node.
    :param style: ``[powervm]provider_names``.
    """
    facts = assessment.Facts(
        policy=policy,
        io_slots=managed.io_slots,
        holdings=tree.holdings if tree else None,
        descendants=tree.providers if tree else (),
        stale_lpars=tree.moves.stale_lpars if tree else {},
    )
    return planned.make_plan(
        assessment.assess(facts),
        tree.allocations if tree else slot_providers.Allocations({}),
        names.namer(node, style),
    )
