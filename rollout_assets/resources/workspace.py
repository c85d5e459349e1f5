"""The resource that gives assets, checks and sensors the store and the policy."""

from pathlib import Path

import dagster as dg

from rollout_assets.policy import Policy, load_policy
from rollout_assets.settings import Settings, store_place, worker_count
from rollout_assets.store import Store


class RolloutWorkspace(dg.ConfigurableResource["RolloutWorkspace"]):
    """Paths of the runs root, the store root (or its URL) and the policy file, and how many scan one run.

    Empty, or 0 workers, means: as the environment says.
    """

    runs_root: str = ""
    store_root: str = ""
    policy_file: str = ""
    workers: int = 0

    @property
    def settings(self) -> Settings:
        """The paths in force."""
        found = Settings.of()
        return Settings(
            runs_root=Path(self.runs_root) if self.runs_root else found.runs_root,
            store_root=store_place(self.store_root) if self.store_root else found.store_root,
            policy=Path(self.policy_file) if self.policy_file else found.policy,
            dagster_home=found.dagster_home,
        )

    @property
    def store(self) -> Store:
        """The store for these runs."""
        settings = self.settings
        return Store(settings.store_root, settings.runs_root)

    @property
    def worker_count(self) -> int:
        """How many threads or processes may scan one run."""
        return self.workers or worker_count()

    @property
    def policy(self) -> Policy:
        """The policy, read afresh so that an edit takes effect without a restart."""
        return load_policy(self.settings.policy)
