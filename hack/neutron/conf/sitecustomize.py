# Each Python process of this Neutron and Keystone loads this file when it starts, in place of Debian's own. Neutron keeps very many
# objects, and by default (700, 10, 10) Python looks for garbage among them so often that this takes a seventh of the API's time.
import gc

gc.set_threshold(100_000, 50, 1_000)
