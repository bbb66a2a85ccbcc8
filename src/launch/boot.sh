set -u
umask 077

# Ends the machine. On Google Cloud a machine that was only shut down keeps a disk that costs money, so it deletes itself.
finish() {
  # A stand-in for a cloud has its own way.
  if [ -n "${GPUPLAN_END_MACHINE:-}" ]; then
    $GPUPLAN_END_MACHINE
    return
  fi
  if [ "$cloud" = gcp ]; then
    zone=$(google instance/zone)
    curl -fsS -X DELETE -H "Authorization: Bearer $(google_token)" \
      "${GPUPLAN_GCP_ENDPOINT:-https://compute.googleapis.com}/compute/v1/$zone/instances/$(google instance/name)"
  fi
  shutdown -P now
}

# Nothing that goes wrong here may leave a machine that idles.
fail() {
  echo "gpuplan: $1" >&2
  finish
  exit 1
}

google() {
  curl -fsS -H 'Metadata-Flavor: Google' "http://${GCE_METADATA_HOST:-metadata.google.internal}/computeMetadata/v1/$1"
}

google_token() {
  google instance/service-accounts/default/token | sed -n 's/.*"access_token" *: *"\([^"]*\)".*/\1/p'
}

# Writes a file, an address, or an address that wants the machine's own identity.
get() {
  case $1 in
    identified:*) curl -fsSL -H "Authorization: Bearer $(google_token)" "${1#identified:}" ;;
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
      curl -fsS -H "Authorization: Bearer $(google_token)" \
        "https://secretmanager.googleapis.com/v1/projects/$(google project/project-id)/secrets/$1/versions/latest:access" |
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
