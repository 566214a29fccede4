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

"""Validates the extra specs of this driver in nova-api.

Where the wheel is installed, Nova's API finds the module by the entry point
``nova.api.extra_spec_validators``, and refuses what it does not know.
"""

from typing import Any

from nova.api.validation.extra_specs import base

from nova_powervm.lpar import extra_specs


def register() -> list[base.ExtraSpecValidator]:
    """Return a validator for each extra spec."""
    return [
        base.ExtraSpecValidator(
            name=row.key,
            description=row.text,
            value={'description': row.value.form, **_value(row.value)},
        )
        for row in extra_specs.TABLE
    ]


def _value(value: object) -> dict[str, Any]:
    """Describe the values in Nova's form."""
    match value:
        case extra_specs.Whole(low=low, high=high):
            return {'type': int, 'min': low, 'max': high}
        case extra_specs.Units(pattern=pattern):
            return {'type': str, 'pattern': pattern}
        case extra_specs.Choice(values=values):
            return {'type': str, 'enum': list(values)}
    return {'type': bool}
