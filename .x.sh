cd /work/wt/d; (time timeout 200 /work/q .venv/bin/python -m pytest -q tests/deploy -p no:cacheprovider --durations=6) > /tmp/d-proxy.out 2>&1
