#!/bin/sh
# PostgreSQL's image runs this once, on an empty volume: the owner of the tables, and the role of
# the service, which owns nothing. See "Two database roles" in docs/operations.md.
set -eu
psql --no-psqlrc --set=ON_ERROR_STOP=1 --quiet --username postgres --dbname "$POSTGRES_DB" <<SQL
CREATE ROLE tallystick_owner LOGIN PASSWORD '$(cat /run/secrets/owner_password)';
CREATE ROLE tallystick_service LOGIN PASSWORD '$(cat /run/secrets/service_password)';
ALTER DATABASE "$POSTGRES_DB" OWNER TO tallystick_owner;
SQL
