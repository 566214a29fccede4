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

"""The checks of the mode ``partition`` with a shared storage pool.

Each host of a cluster sees the logical units of its pool: they have names that
only this host gives.
"""

from nova_powervm.powervm.check import trial
from nova_powervm.powervm.check import trial_pool
from nova_powervm.powervm.disk import pools
from nova_powervm.tool.check import answers

_Check = answers.Check
_Trial = trial.Trial

_OFF, _COPES = answers.Meaning.OFF, answers.Meaning.COPES

_NUMBERED = 2
_with_image = answers.needs('pool.image', 'there is no image in a pool')
_with_clone = answers.needs('pool.clone', 'there is no disk in a pool')
_with_lpar = answers.needs('lpar', 'there is no LPAR')


def _image(this: _Trial) -> answers.Answer:
    why = this.pool.why_none()
    if why:
        return answers.unknown(why)
    this.pool.make_image()
    status = trial.refusal(lambda: this.pool.upload(trial.CONTENTS))
    detail = '' if status is None else f'HTTP {status}'
    return answers.judged(status is None, status is None, detail)


@_with_image
def _clone(this: _Trial) -> answers.Answer:
    this.pool.make_clone()
    found = pools.is_clone_of(this.pool.clone, this.pool.image)
    return answers.judged(found, found)


@_with_clone
def _space(this: _Trial) -> answers.Answer:
    taken = round(this.pool.taken_gb(), 1)
    return answers.judged(round(taken) == 0, taken)


@_with_clone
def _image_deletion(this: _Trial) -> answers.Answer:
    pool = this.pool
    return answers.refused(
        trial.refusal(lambda: pool.units.delete(pool.image))
    )


@_with_clone
def _image_upload(this: _Trial) -> answers.Answer:
    return answers.refused(
        trial.refusal(lambda: this.pool.upload(trial.CONTENTS))
    )


@_with_clone
def _rename(this: _Trial) -> answers.Answer:
    found = this.pool.rename() == this.pool.image.name
    return answers.judged(found, found)


@_with_lpar
@_with_clone
def _mapping(this: _Trial) -> answers.Answer:
    found = this.pool.map(this.read().uuid)
    if not found:
        return answers.unknown('no Virtual I/O Server of the cluster runs')
    slots = [slot for each in found for slot in each]
    agrees = len(slots) == len({*slots}) == len(found) and all(found)
    # The host itself chooses the slots of a third server.
    known = len(found) > _NUMBERED or {*slots} <= trial_pool.SLOTS
    return answers.judged(agrees and known, sorted(slots))


@_with_clone
def _mapped_deletion(this: _Trial) -> answers.Answer:
    pool = this.pool
    if not pool.is_mapped:
        return answers.unknown('the disk is not mapped')
    return answers.refused(
        trial.refusal(lambda: pool.units.delete(pool.clone))
    )


@_with_clone
def _growth(this: _Trial) -> answers.Answer:
    size = this.pool.grow()
    return answers.judged(size >= trial_pool.GROWN_GB, round(size))


@_with_clone
def _in_use(this: _Trial) -> answers.Answer:
    if not this.pool.is_mapped:
        return answers.unknown('the disk is not mapped')
    if this.state() not in trial.STARTED:
        return answers.unknown('the LPAR does not run')
    found = this.pool.is_in_use()
    return answers.judged(found, found)


@_with_clone
def _unused(this: _Trial) -> answers.Answer:
    if this.state() != trial.OFF:
        return answers.unknown('the LPAR does not stop')
    found = this.pool.is_in_use()
    return answers.judged(not found, found)


_NO_POOL = 'Do not use ``[powervm]disk_driver = ssp``.'
_SAME_DELETION = 'by deleting it'

CHECKS = (
    _Check(
        'pool-image',
        'Images in a pool',
        'A shared storage pool makes an image, and an upload is written to '
        'it.',
        f'with {trial_pool.UNIT_GB} GB in the pool of '
        '``[powervm]cluster_name``, or of the only cluster',
        _OFF,
        _NO_POOL,
        answers.YES_OR_NO,
        _image,
    ),
    _Check(
        'pool-clone',
        'Clones in a pool',
        'An image can be cloned, and its clone names it as its origin.',
        'by cloning the image',
        _OFF,
        _NO_POOL,
        answers.YES_OR_NO,
        _clone,
    ),
    _Check(
        'pool-space',
        'Space of clones',
        'A clone takes no space of its pool while nobody writes to it.',
        'by how many GB less are free after it was made',
        _COPES,
        'Set ``[DEFAULT]disk_allocation_ratio`` to 1.0, so that each disk '
        'is counted in full.',
        {'type': 'number'},
        _space,
    ),
    _Check(
        'cloned-image-deletion',
        'Deletion of cloned images',
        'An image that has a clone cannot be deleted.',
        _SAME_DELETION,
        _COPES,
        'The driver looks for clones before it deletes an image.',
        answers.YES_OR_NO,
        _image_deletion,
    ),
    _Check(
        'cloned-image-upload',
        'Uploads to cloned images',
        'An image that has a clone cannot be uploaded to.',
        'by the upload that made it',
        _COPES,
        'The driver uploads an image once, before its first clone.',
        answers.YES_OR_NO,
        _image_upload,
    ),
    _Check(
        'pool-rename',
        'Names in a pool',
        'A logical unit can be renamed, also to the name of another one.',
        'by giving the clone the name of its image',
        _OFF,
        'Cached images that nobody needs any more stay in the pool.',
        answers.YES_OR_NO,
        _rename,
    ),
    _Check(
        'pool-mapping',
        'Mappings of a pool',
        'Each Virtual I/O Server of the cluster maps a logical unit to the '
        'LPAR, at a virtual slot of its own.',
        'client adapters of the mappings; the values are their slots',
        _OFF,
        _NO_POOL,
        {'type': 'array', 'items': answers.COUNT},
        _mapping,
    ),
    _Check(
        'mapped-unit-deletion',
        'Deletion of mapped logical units',
        'A logical unit that is mapped cannot be deleted.',
        _SAME_DELETION,
        _COPES,
        'The driver unmaps disks first, but cannot tell whether another host '
        'maps one that it deletes after an evacuation.',
        answers.YES_OR_NO,
        _mapped_deletion,
    ),
    _Check(
        'unit-growth',
        'Growth of logical units',
        'A logical unit that is mapped can be enlarged.',
        f'its size in GB after a change to {trial_pool.GROWN_GB}',
        _OFF,
        'Do not resize instances with ``[powervm]disk_driver = ssp``.',
        answers.COUNT,
        _growth,
    ),
)
IN_USE = _Check(
    'unit-in-use',
    'Logical units in use',
    'A pool tells that a logical unit is in use while its LPAR runs.',
    '``InUse`` of the clone',
    _OFF,
    'Power a host off before its servers are evacuated: the driver would not '
    'notice that one still runs there.',
    answers.YES_OR_NO,
    _in_use,
)
UNUSED = _Check(
    'unit-unused',
    'Logical units that are not in use',
    'A pool tells that a logical unit is not in use when its LPAR is off.',
    '``InUse`` of the clone',
    _OFF,
    'Evacuations are refused. Read about ``[powervm]check_disks_in_use``.',
    answers.YES_OR_NO,
    _unused,
)
