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

"""Connects to the services of the cloud that have an API for users."""

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import keystoneauth1.exceptions
import openstack
import openstack.exceptions
from oslo_config import cfg

from nova_powervm import exception
from nova_powervm.tool.inventory import placement_client

#: Any of them says which cloud is meant.
_VARIABLES = ('OS_CLOUD', 'OS_AUTH_URL', 'OS_ENDPOINT')


def connect(cloud: str | None, conf: cfg.ConfigOpts | None = None) -> Any:
    """Return the SDK's connection to a cloud.

    :param cloud: Name of a cloud in clouds.yaml; None to use the environment.
    :param conf: Configuration whose section [placement] has the credentials
        if neither ``cloud`` nor the environment names a cloud. None if these
        must not be used.
    """
    if cloud or conf is None or any(os.environ.get(v) for v in _VARIABLES):
        return openstack.connect(cloud=cloud)
    return openstack.connection.Connection(
        session=placement_client.load_session(conf),
        region_name=conf[placement_client.GROUP].region_name,
    )


@contextlib.contextmanager
def translated(
    error_class: type[exception.PowerVMError], action: str
) -> Iterator[None]:
    """Translate exceptions of the SDK.

    :param error_class: The class of the translated errors.
    :param action: What is being done, in words.
    """
    try:
        yield
    except openstack.exceptions.HttpException as error:
        raise error_class(reason=f'{action}: {_one_line(error)}') from error
    except (
        openstack.exceptions.SDKException,
        keystoneauth1.exceptions.ClientException,
    ) as error:
        raise error_class(
            reason=f'{action}: {_one_line(error)}. Name the cloud with '
            '--os-cloud or $OS_CLOUD, or source its openrc file'
        ) from error


def _one_line(error: Exception) -> str:
    return ' '.join(str(error).split()).rstrip('.')
