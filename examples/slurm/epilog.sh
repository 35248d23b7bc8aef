#!/bin/sh
# EpilogSlurmctld: takes a job that ends off fairspine's controller. See README.md.
(
  # shellcheck source=fairspine.sh
  . "$(dirname "$0")/fairspine.sh"

  read_settings || exit
  if ask jobs delete "$job"; then
    log "$job removed"
    exit
  fi
  # Most jobs were never pushed.
  case $said in
    *"no job has the name"*) ;;
    *) log "$job is not removed: $said" ;;
  esac
)
exit 0
