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

"""Asks Nova's conductor who burned devices.

Nova's API does not show which devices a server has had, and a compute node
has no access to the database. So ask as nova-compute does, with the transport
of its nova.conf.
"""

import contextlib
import functools
import threading
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterator
from collections.abc import Mapping
from concurrent import futures
from typing import Any
from typing import ClassVar
from typing import TypeVar

import oslo_messaging
from oslo_config import cfg

from nova_powervm.devices import one_time_use
from nova_powervm.tool import errors
from nova_powervm.tool.rules import placement_tree

_Result = TypeVar('_Result')

_EXCHANGE = 'nova'
_TOPIC, _VERSION = 'conductor', '3.0'
_LIST = 'InstanceList'
#: What oslo.messaging registers with the configuration of the process alone,
#: and uses with any.
_GLOBAL = ('oslo_messaging_metrics', 'oslo_messaging_tracing')


class Conductor:
    """Asks Nova's conductor, in a thread of its own.

    A broker that is down blocks whoever asks, whatever the timeout. As long as
    a thread is blocked, no other one is started.

    :param conf: Configuration with nova-compute's transport.
    :cvar timeout: Seconds to wait for an answer.
    """

    timeout: ClassVar[float] = 15

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        self._asking: threading.Thread | None = None

    def name_projects(
        self, node: str, providers: Collection[placement_tree.Provider]
    ) -> Mapping[str, str]:
        """Find the projects that burned devices.

        Nothing is asked for no device, and two questions for any number.

        :param node: Name of the compute node.
        :param providers: Those of the devices.
        :returns: Provider uuid to the id of the project, or to
            :data:`devices.one_time_use.UNKNOWN`.
        :raises errors.ConductorUnanswered: The conductor does not answer.
        """
        if not providers:
            return {}
        uuids = {provider.uuid for provider in providers}
        holders = self._ask(functools.partial(self._read, node, uuids))
        return {
            provider.uuid: one_time_use.name_project(
                holders.get(provider.uuid),
                provider.written_at.timestamp()
                if provider.written_at
                else None,
            )
            for provider in providers
        }

    def _ask(self, question: Callable[[], _Result]) -> _Result:
        """Return what a function returns, if it does so in time."""
        if self._asking and self._asking.is_alive():
            raise errors.ConductorUnanswered(reason='it was asked before')
        answer: futures.Future[_Result] = futures.Future()
        self._asking = threading.Thread(
            target=_answer,
            args=(answer, question),
            name='powervm-conductor',
            daemon=True,
        )
        self._asking.start()
        if not futures.wait([answer], self.timeout).done:
            raise errors.ConductorUnanswered(
                reason=f'no answer within {self.timeout} seconds'
            )
        # It has answered, although its thread may not have ended yet.
        self._asking = None
        try:
            return answer.result()
        except Exception as error:
            reason = errors.one_line(error) or type(error).__name__
            raise errors.ConductorUnanswered(reason=reason) from error

    def _read(
        self, node: str, uuids: Collection[str]
    ) -> Mapping[str, one_time_use.Holder]:
        # Importing Nova takes a second, and most calls do not need it.
        from nova_powervm.virt import burn_records  # noqa: PLC0415

        with _connect(self._conf, self.timeout) as read:
            return burn_records.read_holders(node, uuids, read)


def _answer(
    answer: futures.Future[_Result], question: Callable[[], _Result]
) -> None:
    """Call a function, and keep what it returns or raises."""
    try:
        answer.set_result(question())
    except Exception as error:
        answer.set_exception(error)


@contextlib.contextmanager
def _connect(
    conf: cfg.ConfigOpts, timeout: float
) -> Iterator[Callable[..., Any]]:
    """Yield Nova's list of instances as its conductor reads it.

    A transport has a connection and a thread, which end with this block.
    """
    from nova import objects  # noqa: PLC0415

    objects.register_all()
    _complete(conf)
    oslo_messaging.set_transport_defaults(_EXCHANGE)
    transport = oslo_messaging.get_rpc_transport(conf)
    try:
        if conf.transport_url == 'rabbit://':
            raise ValueError('[DEFAULT]transport_url is not set')
        yield _make_reader(transport, timeout)
    finally:
        transport.cleanup()


def _make_reader(transport: Any, timeout: float) -> Callable[..., Any]:
    """Return a function that asks for a list of instances."""
    from nova import rpc  # noqa: PLC0415
    from nova.objects import base  # noqa: PLC0415

    client = oslo_messaging.get_rpc_client(
        transport,
        oslo_messaging.Target(topic=_TOPIC, version=_VERSION),
        timeout=timeout,
        serializer=rpc.RequestContextSerializer(base.NovaObjectSerializer()),
    )

    # The conductor's own may be newer.
    versions = {
        name: known[0].VERSION
        for name, known in base.NovaObjectRegistry.obj_classes().items()
    }

    def read(context: Any, *args: Any, **kwargs: Any) -> Any:
        return client.call(
            context,
            'object_class_action_versions',
            objname=_LIST,
            objmethod='get_by_filters',
            object_versions=versions,
            args=args,
            kwargs=kwargs,
        )

    return read


def _complete(conf: cfg.ConfigOpts) -> None:
    """Add the options that are missing, with their defaults."""
    for group in filter(cfg.CONF.__contains__, _GLOBAL):
        for name, value in cfg.CONF[group].items():
            conf.register_opt(cfg.Opt(name, type=_keep), group=group)
            conf.set_override(name, value, group=group)


def _keep(value: Any) -> Any:
    """Return the value of an option as it is."""
    return value
