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

"""The ML2 mechanism driver ``pvm_sea``, which Neutron loads and calls."""

import collections.abc
import contextlib
from typing import Any

from neutron_lib import constants
from neutron_lib.api.definitions import portbindings
from neutron_lib.plugins import directory
from neutron_lib.plugins.ml2 import api
from oslo_config import cfg
from oslo_log import log as logging

from nova_powervm.neutron import binding
from nova_powervm.neutron import options

LOG = logging.getLogger(__name__)

_NOT_BOUND = 'pvm_sea does not bind port %s on host %s: %s'


class SeaMechanismDriver(api.MechanismDriver):
    """Binds ports of PowerVM hosts to VLANs and untagged networks.

    There is no agent: the compute driver reads the binding and connects the
    adapter to the bridge of a Shared Ethernet Adapter. ML2 calls the methods;
    ``neutron_lib.plugins.ml2.api`` defines their contracts.
    """

    def initialize(self) -> None:
        """Read the options."""
        options.register_opts(cfg.CONF)
        self._rules = options.take(cfg.CONF[options.GROUP.name])
        LOG.info(
            'pvm_sea binds ports of the hosts %s on the physical networks %s.',
            ', '.join(self._rules.hosts),
            ', '.join(self._rules.physical_networks),
        )

    @property
    def connectivity(self) -> str:
        """Return the connectivity type: layer 2, so ports need no address."""
        return str(portbindings.CONNECTIVITY_L2)

    def bind_port(self, context: Any) -> None:
        """Bind a port to the first usable segment, or log why none is usable.

        :param context: Neutron's PortContext.
        """
        foreign = self._why_foreign(context)
        if foreign:
            LOG.debug(_NOT_BOUND, context.current['id'], context.host, foreign)
            return
        segment, reason = self._choose_segment(context)
        if segment is None:
            LOG.warning(
                _NOT_BOUND, context.current['id'], context.host, reason
            )
            return
        context.set_binding(
            segment[api.ID],
            binding.VIF_TYPE,
            binding.vif_details(segment),
        )

    def update_port_postcommit(self, context: Any) -> None:
        """Make a bound port active, without sending an event to Nova.

        A port is down after it was bound, and after a binding that was
        prepared for another host was activated. No agent reports it later,
        so Nova must not wait for it: it waits for ports that are down when
        it reads them. The event would reach nova-compute while Nova's
        request to bind the port is still being answered, when nothing waits
        for it, and nova-compute would log it as unexpected.

        :param context: Neutron's PortContext.
        """
        if (
            context.vif_type == binding.VIF_TYPE
            and context.status == constants.PORT_STATUS_DOWN
        ):
            plugin = directory.get_plugin()
            with _without_event(plugin):
                plugin.update_port_status(
                    context.plugin_context,
                    context.current['id'],
                    constants.PORT_STATUS_ACTIVE,
                )
            # The answer to the request is made of it.
            context.current['status'] = constants.PORT_STATUS_ACTIVE

    def filter_hosts_with_segment_access(
        self,
        context: Any,
        segments: collections.abc.Iterable[binding.Segment],
        candidate_hosts: collections.abc.Iterable[str],
        agent_getter: Any,
    ) -> set[str]:
        """Return the hosts that have access to at least one of the segments.

        Neutron asks before it schedules the DHCP agents of a network. It asks
        either all mechanism drivers or, if one does not implement this
        method, none.
        """
        if all(map(self._rules.why_not_segment, segments)):
            return set()
        return set(filter(self._rules.has_host, candidate_hosts))

    def _why_foreign(self, context: Any) -> str | None:
        if not self._rules.has_host(context.host):
            return 'the host is not among [pvm_sea]hosts'
        return binding.why_foreign(context.current)

    def _choose_segment(
        self, context: Any
    ) -> tuple[binding.Segment | None, str | None]:
        """Return the segment to bind and None, or None and the reason."""
        reason = binding.why_not_port(context.current)
        if reason:
            return None, reason
        reasons = []
        for segment in context.segments_to_bind:
            reason = self._rules.why_not_segment(segment)
            if reason is None:
                return segment, None
            reasons.append(f'segment {segment[api.ID]}: {reason}')
        return None, '; '.join(reasons)


def _without_event(plugin: Any) -> contextlib.AbstractContextManager[None]:
    """Keep neutron from telling Nova of changes of a port's status.

    :param plugin: Its core plugin; it has no notifier if it
        is used without Nova.
    """
    notifier = getattr(plugin, 'nova_notifier', None)
    if notifier is None:
        return contextlib.nullcontext()
    quiet: contextlib.AbstractContextManager[None] = notifier.context_enabled(
        False
    )
    return quiet
