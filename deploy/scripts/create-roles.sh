#!/bin/sh
# Create the owner of the tables, and the role of the service, which owns nothing. See "Two database
# roles" in docs/operations.md. PostgreSQL's image runs this once, on an empty volume. On a server
# of your own, as root:
#
#   PSQL='runuser -u postgres -- psql' SECRETS=/etc/tallystick/secrets create-roles.sh
set -eu
secrets=${SECRETS:-/run/secrets}
# shellcheck disable=SC2086 # a command and its arguments
${PSQL:-psql --username postgres} --no-psqlrc --set=ON_ERROR_STOP=1 --quiet \
  --dbname "${POSTGRES_DB:-tallystick}" <<SQL
CREATE ROLE tallystick_owner LOGIN PASSWORD '$(cat "$secrets/owner_password")';
CREATE ROLE tallystick_service LOGIN PASSWORD '$(cat "$secrets/service_password")';
ALTER DATABASE "${POSTGRES_DB:-tallystick}" OWNER TO tallystick_owner;
SQL
