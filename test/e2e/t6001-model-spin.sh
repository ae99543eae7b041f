#!/usr/bin/env bash
# The model of claim, lease, finish and cancel, searched to its last state (test/model/README.md).
# time limit: 600
if ! command -v spin >/dev/null; then
    echo '1..0 # skip there is no spin (apt-get install spin)'
    exit 0
fi
exec "${WEIR_ROOT:?}/test/model/run"
