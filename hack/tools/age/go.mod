// The age program, which opens what we encrypt and the reverse, pinned. Built by hack/cluster/binaries.py.
module pinnace.local/hack/tools/age

go 1.25.0

tool filippo.io/age/cmd/age

require (
	filippo.io/age v1.3.2 // indirect
	filippo.io/edwards25519 v1.2.0 // indirect
	filippo.io/hpke v0.4.0 // indirect
	filippo.io/nistec v0.0.4 // indirect
	golang.org/x/crypto v0.55.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
	golang.org/x/term v0.45.0 // indirect
)
