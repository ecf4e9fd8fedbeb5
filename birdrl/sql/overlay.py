"""Strategy `overlay`: a read-only template below, changed pages in memory above (BIRD-RL, Algorithm 1).

A replica is nothing but its dirty pages: making one costs nothing, resetting it drops the pages, and the disk is
never written.
"""

from __future__ import annotations

from birdrl.sql.storage import MemoryFile, Quota, ReplicaStorage, Template

__all__ = ["Overlay", "OverlayStorage", "Template"]


class Overlay(MemoryFile):
    """The main database file of one replica: `template` with this replica's own pages on top."""

    def __init__(self, template: Template, quota_bytes: int) -> None:
        super().__init__(Quota(quota_bytes), template.page_size, template.data, template.size)
        self.template = template
        self.reset()

    def reset(self) -> None:
        """Drop every changed page."""
        self.clear()
        self.size = self.base_size = self.template.size
        if self.template.wal_mode:
            self.quota.take(self.block)
            self.blocks[0] = self.template.first_page()


class OverlayStorage(ReplicaStorage):
    """A replica whose changed pages, at most `quota_bytes` with its temporary files, are in memory."""

    main: Overlay

    def __init__(self, template: Template, quota_bytes: int) -> None:
        super().__init__(template, Overlay(template, quota_bytes))

    def _reset_main(self) -> int:
        self.main.reset()
        return 0

    def close(self) -> None:
        super().close()
        self.main.clear()
