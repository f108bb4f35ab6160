module bridgeclient

go 1.19
