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

"""Makes the methods of the driver that refuse an operation."""

import inspect
from collections.abc import Callable
from typing import Any

import wrapt
from nova import exception as nova_exception
from nova.virt import driver

from nova_powervm.virt.unsupported import messages


class Refusal:
    """A method with Nova's name and signature that refuses an operation.

    Its error is NotImplementedError where Nova's API turns that into 501.

    :param operation: The operation, as a noun phrase in the singular.
    :param error: Returns the exception for a message.
    """

    def __init__(
        self,
        operation: str,
        error: Callable[[str], Exception] = nova_exception.NovaException,
    ) -> None:
        self._operation = operation
        self._error = error

    def __set_name__(self, owner: type, name: str) -> None:
        """Replace this by a method of the driver's class."""
        method = getattr(driver.ComputeDriver, name)
        setattr(owner, name, wrapt.FunctionWrapper(method, self._refuse))

    def _refuse(
        self, method: Any, refuser: Any, args: tuple[Any, ...], kwargs: Any
    ) -> None:
        given = inspect.signature(method).bind(*args, **kwargs).arguments
        instance = given.get('instance')
        raise self._error(messages.log_refusal(self._operation, instance))


def roll_back(reason: str) -> nova_exception.InstanceFaultRollback:
    """Return an exception after which the instance keeps its former state.

    After any other exception Nova sets the instance to ERROR.
    """
    return nova_exception.InstanceFaultRollback(
        nova_exception.NovaException(reason)
    )
