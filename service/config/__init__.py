"""The settings of every process of the service, their checks, and secrets from files."""

from service.config.checks import CREDIT_AMOUNT as CREDIT_AMOUNT
from service.config.settings import SECRETS as SECRETS
from service.config.settings import Config as Config
from service.config.settings import read_secrets as read_secrets
