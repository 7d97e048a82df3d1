"""kombu's Redis transport for oslo.messaging, whose Rabbit driver expects more of a channel."""
from collections import defaultdict

from kombu.transport import redis


class channel(redis.Channel):
    events = defaultdict(set)  # of returned messages: Redis has none
    fanout_patterns = False  # the sender's topic has no routing key, the receiver's has one


class transport(redis.Transport):  # a URL's scheme has small letters only
    Channel = channel
