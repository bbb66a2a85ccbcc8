set -u
umask 077

# Ends the machine. Where a shutdown does not end what it costs, as on Google Cloud, and on a stand-in, the launcher says how.
finish() {
  if [ -n "${GPUPLAN_END_MACHINE:-}" ]; then $GPUPLAN_END_MACHINE; else shutdown -P now; fi
}

# Ends first what would start another machine in its place, where a group of the cloud does: else the run would never end.
finish_for_good() {
  if [ -n "${GPUPLAN_END_GROUP:-}" ]; then
    $GPUPLAN_END_GROUP || echo "gpuplan: the group cannot be ended, and starts another machine" >&2
  fi
  finish
}

# Nothing that goes wrong here may leave a machine that idles.
fail() {
  echo "gpuplan: $1" >&2
  finish_for_good
  exit 1
}

google() {
  curl -fsS -H 'Metadata-Flavor: Google' "http://${GCE_METADATA_HOST:-metadata.google.internal}/computeMetadata/v1/$1"
}

# Its token goes to curl as a line of standard input, and stands in no list of processes.
google_curl() {
  google instance/service-accounts/default/token |
    sed -n 's/.*"access_token" *: *"\([^"]*\)".*/Authorization: Bearer \1/p' | curl -fsSL -H @- "$1"
}

# Writes a file, an address, or an address that wants the machine's own identity.
get() {
  case $1 in
    s3://*) aws s3 cp --only-show-errors "$1" - ;;
    identified:*) google_curl "${1#identified:}" ;;
    http://* | https://*) curl -fsSL "$1" ;;
    *) cat "$1" ;;
  esac
}

# fetch FILE SHA256 WHERE
fetch() {
  tries=1
  until get "$3" >"$1.part" && echo "$2  $1.part" | sha256sum -c --status; do
    [ $tries -lt 6 ] || fail "$1 cannot be fetched"
    sleep $((tries * 2))
    tries=$((tries + 1))
  done
  mv "$1.part" "$1"
}

secret() {
  case $cloud in
    aws) aws secretsmanager get-secret-value --secret-id "$1" --query SecretString --output text ;;
    gcp)
      google_curl "https://secretmanager.googleapis.com/v1/projects/$(google project/project-id)/secrets/$1/versions/latest:access" |
        sed -n 's/.*"data" *: *"\([^"]*\)".*/\1/p' | base64 -d
      ;;
    *) cat "${GPUPLAN_SECRETS:-/nowhere}/$1" ;;
  esac
}

# Local disks are fast and large where there are any: AWS's deep learning images join them at the first of these.
place=${GPUPLAN_MACHINE_FOLDER:-}
if [ -z "$place" ]; then
  for place in /opt/dlami/nvme /mnt/disks/ssd /var/lib; do [ -d "$place" ] && break; done
  place=$place/gpuplan
fi
mkdir -p "$place/work" && cd "$place" || fail "$place cannot be made"
