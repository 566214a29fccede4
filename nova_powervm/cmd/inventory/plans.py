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

"""The plan that the service would make of what is there now."""

from typing import TYPE_CHECKING

from nova_powervm import exception
from nova_powervm import journal
from nova_powervm.cmd.inventory import config
from nova_powervm.domain import existing
from nova_powervm.domain import host
from nova_powervm.domain import matching
from nova_powervm.domain import observed
from nova_powervm.domain import planned
from nova_powervm.domain import planning
from nova_powervm.domain import policy as policies
from nova_powervm.domain import traitkeeping
from nova_powervm.ops import devices

if TYPE_CHECKING:
    from nova_powervm.cmd.inventory import base

_UNKNOWN: traitkeeping.Kept = {}


def kept(app: 'base.App') -> traitkeeping.Kept:
    """Read which traits nova-compute has set, without a lock.

    :param app: Has the configuration.
    :returns: What its journal holds; nothing, after a warning, if this user
        may not read it. Nothing, too, if no option says where it is.
    """
    path = app.config.trait_journal
    try:
        return journal.FileTraitJournal(path).peek() if path else _UNKNOWN
    except exception.TraitJournalUnusable as error:
        app.warn(
            f'{error} Traits that nova-compute would take away because they '
            'have left the inventory file are shown as if they stayed.'
        )
        return _UNKNOWN


def make(
    policy: policies.Policy,
    view: host.HostView,
    tree: observed.Tree,
    configured: config.Config,
    known: traitkeeping.Kept = _UNKNOWN,
) -> planned.Plan:
    """Plan as nova-compute does in its next update.

    The service asks Nova which LPARs are its own. Here those count whose
    instance holds something on this host in Placement; one that an instance
    left behind when it was deleted looks foreign.

    :param policy: The inventory file.
    :param view: A reading of the host.
    :param tree: What Placement holds.
    :param configured: Says how new providers are named.
    :param known: See :func:`kept`.
    """
    names = configured.settings.provider_names
    return of(policy, view, tree, tree.node, names, known)


def of(
    policy: policies.Policy,
    view: host.HostView,
    tree: observed.Tree | None,
    node: str,
    style: str,
    known: traitkeeping.Kept = _UNKNOWN,
) -> planned.Plan:
    """Do as :func:`make`, also without Placement.

    :param policy: The inventory file.
    :param view: A reading of the host.
    :param tree: What Placement holds; None without it: a slot that an
        instance owns then counts as owned by a partition.
    :param node: Name of the compute node.
    :param style: ``[powervm]provider_names``.
    :param known: See :func:`kept`.
    """
    lpars = tree.instance_lpars if tree else ()
    verdicts = matching.judge(policy, view.io_slots, lpars)
    return planning.make_plan(
        existing.pair(
            matching.devices(verdicts), tree.children if tree else ()
        ),
        tree.allocations if tree else existing.Allocations({}),
        devices.namer(node, style),
        verdicts,
        kept=known,
    )
