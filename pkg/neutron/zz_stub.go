package neutron

func Differences(desired Desired, observed *Network) []string { return nil }
