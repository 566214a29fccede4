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

"""Errors that only the commands raise, and what they print of any error."""

from oslo_config import cfg

from nova_powervm import exception

#: Errors caused by bad input, an unreadable file or an unresponsive server;
#: any other error is a bug.
EXPECTED = (exception.PowerVMError, cfg.Error, OSError, ValueError)


def describe(error: BaseException) -> str:
    """Describe an error; the file's name comes first if it is about a file."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f'{error.filename}: {error.strerror}'
    return str(error)


def one_line(error: Exception) -> str:
    """Return the words of an error in one line, without a full stop."""
    return ' '.join(str(error).split()).rstrip('.')


class PlacementNotConfigured(exception.ConfigurationError):
    """The configuration has no usable credentials for Placement."""

    code = 'powervm.placement.credentials'
    message = (
        'nova.conf does not say how to log on to Placement: {reason}. Fill '
        'in its [placement] section, as for nova-compute, and name the file '
        'with --config-file.'
    )


class PlacementRefused(exception.PowerVMError):
    """Placement or Keystone rejected the credentials."""

    code = 'powervm.placement.refused'
    message = (
        'The credentials in the [placement] section of nova.conf were '
        'refused: {reason}. Compare them with those of nova-compute; they '
        'need the service or admin role.'
    )


class PlacementUnreachable(exception.PowerVMError):
    """Placement did not answer."""

    code = 'powervm.placement.unreachable'
    retryable = True
    message = (
        'Placement does not answer: {reason}. Check the service, and '
        'auth_url, region_name and endpoint_override in the [placement] '
        'section of nova.conf.'
    )


class PlacementError(exception.PowerVMError):
    """Placement answered a request with an error."""

    code = 'powervm.placement.error'
    message = 'Placement request {request} failed: HTTP {status} {reason}'


class NodeUnknown(exception.PowerVMError):
    """Placement has no provider for the compute node."""

    code = 'powervm.placement.node'
    message = (
        "Placement has no provider named '{node}'. Start nova-compute, which "
        'creates it, or name the compute node with --node; "openstack '
        'resource provider list" shows the existing providers.'
    )


class ComputeApiError(exception.PowerVMError):
    """The compute API did not answer, or refused a request."""

    code = 'powervm.compute.api'
    message = 'The compute API: {reason}.'


class ConductorUnanswered(exception.PowerVMError):
    """Nova's conductor did not say which instances had devices."""

    code = 'powervm.conductor'
    retryable = True
    message = (
        "Nova's conductor, which is asked with [DEFAULT]transport_url of "
        'nova.conf, does not tell which projects burned devices: {reason}.'
    )


class DeviceUnchanged(exception.PowerVMError):
    """A device was not changed: it must not be, or others kept changing it."""

    code = 'powervm.device.unchanged'
    message = 'Not changed: {which}: {reason}.'


class AlreadyCleaning(exception.PowerVMError):
    """Another process cleans the devices of this node."""

    code = 'powervm.clean.running'
    message = (
        'Another process cleans the devices of {node} and has locked {path}. '
        'That may be nova-powervm-clean, or a program that it has started and '
        'that outlived it: `fuser -v {path}` shows which.'
    )


class AcceleratorApiError(exception.PowerVMError):
    """Cyborg's API did not answer, or refused a request."""

    code = 'powervm.accelerator.api'
    message = "Cyborg's API: {reason}."


class SlotRefused(exception.PowerVMError):
    """A slot must not be tried."""

    code = 'powervm.check.slot'
    message = (
        'The trial with {slot} is refused, and nothing was changed:\n{reasons}'
    )
