# What prolog.sh and epilog.sh share. Both end with 0 whatever happens: a job must not fail because of its routing.

# Slurm gives these scripts no search path.
PATH=${PATH:-/usr/local/bin:/usr/bin:/bin}
settings=${FAIRSPINE_SLURM_SETTINGS:-/etc/fairspine/slurm.env}
job=slurm-${SLURM_JOB_ID:-}

log() {
  logger -t fairspine-slurm -- "job ${SLURM_JOB_ID:-?}: $*" || echo "fairspine: job ${SLURM_JOB_ID:-?}: $*" >&2
}

# FAIRSPINE_URL, FAIRSPINE_TOKEN and so on from the settings, into the environment of the fairspine command alone:
# other users see command lines.
read_settings() {
  if [ ! -r "$settings" ]; then
    log "$settings cannot be read"
    return 1
  fi
  if [ -n "$(find -L "$settings" -maxdepth 0 -perm /077)" ]; then
    log "others than its owner may read or write $settings, which contains a token: chmod 600"
    return 1
  fi
  # A mistake in it would end this shell, with a status that Slurm takes for the job's fault.
  # shellcheck disable=SC1090
  if ! (. "$settings") > /dev/null 2>&1; then
    log "$settings is not a list of shell variables"
    return 1
  fi
  set -a
  # shellcheck disable=SC1090
  . "$settings"
  set +a
  FAIRSPINE_JOBS=${FAIRSPINE_JOBS:-/etc/fairspine/jobs}
}

# fairspine ARGUMENTS: its message is in $said. It is stopped after FAIRSPINE_SECONDS.
ask() {
  # In braces: a shell reports a killed program on standard error, which would be slurmctld's.
  said=$({ timeout -k 1 "${FAIRSPINE_SECONDS:-10}" fairspine "$@"; exit "$?"; } 2>&1 > /dev/null)
  status=$?
  if [ "$status" -eq 124 ] || [ "$status" -eq 137 ]; then
    said="no answer within ${FAIRSPINE_SECONDS:-10} s"
  fi
  return "$status"
}
