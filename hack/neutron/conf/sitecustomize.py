# Each Python process of this Neutron loads this file when it starts. Neutron keeps very many objects, and by default Python looks for
# garbage among all of them so often that this takes a seventh of the API's time.
import gc

gc.set_threshold(100_000, 50, 1_000)
