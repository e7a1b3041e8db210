"""All probes, in the order in which they run: each import registers its own."""
import probes_raw  # noqa: F401
import probes_sockets  # noqa: F401
import probes_floods  # noqa: F401
import probes_shares  # noqa: F401
import probes_bodies  # noqa: F401
import probes_costs  # noqa: F401
import probes_templates  # noqa: F401
import probes_schemas  # noqa: F401
import probes_origins  # noqa: F401
import probes_tenants  # noqa: F401
import probes_signals  # noqa: F401
import probes_limits  # noqa: F401
import probes_files  # noqa: F401
import probes_adapters  # noqa: F401
