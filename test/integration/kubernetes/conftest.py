import pytest

from policies import KUBERNETES


@pytest.fixture(scope='session')
def schemas():
    """schemas(object): a ValueError names what the Kubernetes API would refuse. No network is asked."""
    if not KUBERNETES:
        pytest.skip('the schemas are not here: set ORCD_KUBERNETES (tools/python_packages.sh kubernetes)')
    import kubernetes_validate

    def check(one: dict) -> None:
        for version in ('1.34', '1.37'):  # the first with claims of devices as they are used, the newest
            try:
                used = kubernetes_validate.validate(one, version, strict=True)
            except kubernetes_validate.ValidationError as e:
                raise ValueError(f'{one["kind"]}, Kubernetes {version}: {e.message[:400]}') from e
            assert used == version
    return check
