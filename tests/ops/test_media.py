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

"""Config drives: the media repository of a VIOS, and what is in it."""

from nova_powervm import exception
from nova_powervm.lpar import operations
from tests.ops import base

SPAWN = operations.SPAWN
OTHER = {'name': 'aix.iso', 'size': 1}


class MediaTestCase(base.HostTestCase):
    """Spawns instances with config drives."""

    #: Changes of volume groups of the default world, by name.
    groups = {}  # noqa: RUF012 - not changed

    def world(self):
        """Return a world with other volume groups."""
        world = super().world()
        (vios,) = world['systems'][0]['virtual_io_servers']
        for group in vios['volume_groups']:
            group.update(self.groups.get(group['name'], {}))
        return world

    def volume_group(self, name):
        """Return a volume group as the control plane shows it."""
        return next(
            group
            for partition in self._system()['partitions']
            for group in partition.get('volume_groups', ())
            if group['name'] == name
        )

    def media(self, name):
        """Return the names of the media in a group; None without a place."""
        repository = self.volume_group(name)['media_repository']
        return repository and [found['name'] for found in repository['media']]

    def spawn_with_drive(self):
        """Spawn an instance whose config drive is in its place."""
        wanted = self.spawn(config_drive=True)
        self.assert_lpar(disks='ri')
        self.assertEqual(
            base.ISO, self.control.contents(self.stored()['i']['udid'])
        )
        return wanted

    def fail_to_spawn(self, error, *words):
        """Have a spawn fail that leaves nothing."""
        self.failed(error, SPAWN, self.describe(config_drive=True), *words)
        self.assert_nothing_left()


class RepositoryTest(MediaTestCase):
    """A VIOS has one media repository."""

    def test_repository_is_made_with_the_first_medium(self):
        self.start_service(media_repository_gb=2)
        self.spawn()
        self.assertIsNone(self.media('rootvg'))
        self.removals.destroy(base.INSTANCE)

        self.spawn_with_drive()

        repository = self.volume_group('rootvg')['media_repository']
        self.assertEqual(2, repository['size'])

    def test_repository_is_looked_for_once(self):
        self.spawn_with_drive()
        self.assertIn('GET VolumeGroup.feed', self.trail())
        self.removals.destroy(base.INSTANCE)

        self.spawn_with_drive()

        self.assertNotIn('GET VolumeGroup.feed', self.trail())

    def test_repository_that_vanished_is_made_again(self):
        self.spawn_with_drive()
        # As an operator does with rmrep.
        self.control.load_world(self.world())

        self.spawn_with_drive()

    def test_missing_group_of_repository_is_named(self):
        self.start_service(media_volume_group='nowhere')

        self.refused(
            exception.ConfigurationError,
            SPAWN,
            self.describe(config_drive=True),
            "media_volume_group_name = 'nowhere'",
        )


class OtherGroupTest(MediaTestCase):
    groups = {  # noqa: RUF012 - not changed
        'image_pool': {'media_repository': {'size': 5, 'media': [OTHER]}}
    }

    def test_repository_in_any_group_is_used_and_keeps_other_media(self):
        self.spawn_with_drive()

        self.assertIsNone(self.media('rootvg'))
        self.assertEqual(2, len(self.media('image_pool')))
        self.removals.destroy(base.INSTANCE)
        self.assertEqual(['aix.iso'], self.media('image_pool'))


class FullRepositoryTest(MediaTestCase):
    groups = {  # noqa: RUF012 - not changed
        'rootvg': {'media_repository': {'size': 1, 'media': [OTHER]}}
    }

    def test_full_repository_leaves_nothing(self):
        self.fail_to_spawn(exception.RestError, 'do not fit')

        self.assertEqual(['aix.iso'], self.media('rootvg'))


class SharedGroupTest(MediaTestCase):
    groups = {  # noqa: RUF012 - not changed
        'image_pool': {'capacity': 100, 'free': 100}
    }

    def test_repository_beside_disks_is_reserved(self):
        self.start_service(
            media_volume_group='image_pool', media_repository_gb=3
        )

        self.spawn_with_drive()

        # The root disk is Placement's to count.
        self.assertEqual(3, self.disks.capacity().reserved_gb)


class UploadTest(MediaTestCase):
    """The second upload of a spawn is that of its config drive."""

    def test_failed_upload_removes_root_disk(self):
        self.control.add_fault(
            match='File.upload', nth=2, every=True, status=500
        )

        self.fail_to_spawn(exception.RestError)

    def test_upload_is_repeated_after_session_expires(self):
        self.control.add_fault(match='File.upload', nth=2, status=401)

        self.spawn_with_drive()

    def test_upload_survives_lost_answer(self):
        self.control.add_fault(
            match='File.upload', nth=2, drop=True, phase='after'
        )

        self.spawn_with_drive()
