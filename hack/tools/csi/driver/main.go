// A CSI driver for tests: its volumes and snapshots are folders on the node's disk.
//
// It can be mounted by a kubelet, with which it registers, and it takes snapshots, which are copies. It does not
// provision: the tests make folders and PersistentVolumes themselves (tests/support/cluster/csi_cluster.py). A volume in
// Block mode is a loop device of the file `disk` in its folder.
//
// Usage: driver NAME NODE DIRECTORY SOCKET REGISTRATION_SOCKET
package main

import (
	"context"
	"errors"
	"io/fs"
	"log"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

func main() {
	if len(os.Args) != 6 {
		log.Fatal("usage: driver NAME NODE DIRECTORY SOCKET REGISTRATION_SOCKET")
	}
	d := &driver{name: os.Args[1], node: os.Args[2], directory: os.Args[3], socket: os.Args[4]}
	for _, folder := range []string{d.volume(""), d.snapshot(""), filepath.Dir(d.socket)} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			log.Fatal(err)
		}
	}
	main := grpc.NewServer()
	csi.RegisterIdentityServer(main, d)
	csi.RegisterControllerServer(main, controller{driver: d})
	csi.RegisterNodeServer(main, node{driver: d})
	// The kubelet asks the driver as soon as there is a registration socket, and does not ask twice.
	listener, ended := listen(d.socket), make(chan error)
	go func() { ended <- main.Serve(listener) }()
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM)
	for {
		d.refused = make(chan struct{}, 1)
		registrar := grpc.NewServer()
		registration.RegisterRegistrationServer(registrar, d)
		listener := listen(os.Args[5])
		go func() {
			if err := registrar.Serve(listener); err != nil {
				ended <- err
			}
		}()
		select {
		case err := <-ended:
			log.Fatal(err)
		case <-told:
			registrar.Stop() // and removes its socket, by which the kubelet forgets the driver
			return
		case <-d.refused:
			registrar.GracefulStop() // the kubelet looks again at a new socket only
		}
	}
}

func listen(path string) net.Listener {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Fatal(err)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		log.Fatal(err)
	}
	return listener
}

type driver struct {
	csi.UnimplementedIdentityServer
	registration.UnsafeRegistrationServer
	name, node, directory, socket string
	refused                       chan struct{}
}

func (d *driver) volume(id string) string   { return filepath.Join(d.directory, "volumes", id) }
func (d *driver) disk(id string) string     { return filepath.Join(d.volume(id), "disk") }
func (d *driver) snapshot(id string) string { return filepath.Join(d.directory, "snapshots", id) }

func (d *driver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: d.name, VendorVersion: "1"}, nil
}

func (d *driver) GetPluginCapabilities(
	context.Context, *csi.GetPluginCapabilitiesRequest,
) (*csi.GetPluginCapabilitiesResponse, error) {
	service := &csi.PluginCapability_Service{Type: csi.PluginCapability_Service_CONTROLLER_SERVICE}
	capability := &csi.PluginCapability{Type: &csi.PluginCapability_Service_{Service: service}}
	return &csi.GetPluginCapabilitiesResponse{Capabilities: []*csi.PluginCapability{capability}}, nil
}

func (d *driver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{Ready: wrapperspb.Bool(true)}, nil
}

// The kubelet asks this on the registration socket.
func (d *driver) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type: registration.CSIPlugin, Name: d.name, Endpoint: d.socket, SupportedVersions: []string{"1.0.0"},
	}, nil
}

func (d *driver) NotifyRegistrationStatus(
	_ context.Context, told *registration.RegistrationStatus,
) (*registration.RegistrationStatusResponse, error) {
	log.Printf("registered: %v %s", told.PluginRegistered, told.Error)
	if !told.PluginRegistered {
		select {
		case d.refused <- struct{}{}:
		default: // is being seen to
		}
	}
	return &registration.RegistrationStatusResponse{}, nil
}

type controller struct {
	csi.UnimplementedControllerServer
	*driver
}

func (c controller) ControllerGetCapabilities(
	context.Context, *csi.ControllerGetCapabilitiesRequest,
) (*csi.ControllerGetCapabilitiesResponse, error) {
	kind := csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT
	rpc := &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: kind}}
	return &csi.ControllerGetCapabilitiesResponse{
		Capabilities: []*csi.ControllerServiceCapability{{Type: rpc}},
	}, nil
}

// CreateSnapshot copies a volume; one of that name that is there already is the answer to a repeated call.
func (c controller) CreateSnapshot(
	_ context.Context, request *csi.CreateSnapshotRequest,
) (*csi.CreateSnapshotResponse, error) {
	if err := checkID(request.Name, request.SourceVolumeId); err != nil {
		return nil, err
	}
	target := c.snapshot(request.Name)
	if _, err := os.Stat(target); errors.Is(err, fs.ErrNotExist) {
		unfinished := c.snapshot("." + request.Name)
		if err := os.RemoveAll(unfinished); err != nil {
			return nil, err
		}
		if err := os.CopyFS(unfinished, os.DirFS(c.volume(request.SourceVolumeId))); err != nil {
			return nil, err
		}
		if err := os.Rename(unfinished, target); err != nil {
			return nil, err
		}
	}
	return &csi.CreateSnapshotResponse{Snapshot: &csi.Snapshot{
		SnapshotId:     request.Name,
		SourceVolumeId: request.SourceVolumeId,
		SizeBytes:      1 << 20,
		CreationTime:   timestamppb.New(time.Now()),
		ReadyToUse:     true,
	}}, nil
}

func (c controller) DeleteSnapshot(
	_ context.Context, request *csi.DeleteSnapshotRequest,
) (*csi.DeleteSnapshotResponse, error) {
	if err := checkID(request.SnapshotId); err != nil {
		return nil, err
	}
	return &csi.DeleteSnapshotResponse{}, os.RemoveAll(c.snapshot(request.SnapshotId))
}

type node struct {
	csi.UnimplementedNodeServer
	*driver
}

func (n node) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: n.node}, nil
}

func (n node) NodeGetCapabilities(
	context.Context, *csi.NodeGetCapabilitiesRequest,
) (*csi.NodeGetCapabilitiesResponse, error) {
	return &csi.NodeGetCapabilitiesResponse{}, nil
}

func (n node) NodePublishVolume(
	_ context.Context, request *csi.NodePublishVolumeRequest,
) (*csi.NodePublishVolumeResponse, error) {
	if err := checkID(request.VolumeId); err != nil {
		return nil, err
	}
	source, err := n.volume(request.VolumeId), os.MkdirAll(filepath.Dir(request.TargetPath), 0o755)
	if err != nil {
		return nil, err
	}
	if request.GetVolumeCapability().GetBlock() != nil {
		if source, err = attach(n.disk(request.VolumeId)); err != nil {
			return nil, err
		}
		err = os.WriteFile(request.TargetPath, nil, 0o600)
	} else {
		err = os.MkdirAll(request.TargetPath, 0o755)
	}
	if err != nil {
		return nil, err
	}
	if err := syscall.Mount(source, request.TargetPath, "", syscall.MS_BIND, ""); err != nil {
		return nil, status.Errorf(codes.Internal, "mounting %s: %v", request.VolumeId, err)
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

func (n node) NodeUnpublishVolume(
	_ context.Context, request *csi.NodeUnpublishVolumeRequest,
) (*csi.NodeUnpublishVolumeResponse, error) {
	err := syscall.Unmount(request.TargetPath, 0)
	if err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOENT) {
		return nil, err
	}
	if err := detach(n.disk(request.VolumeId)); err != nil {
		return nil, err
	}
	return &csi.NodeUnpublishVolumeResponse{}, os.RemoveAll(request.TargetPath)
}

// attach makes a loop device of the file of a volume in Block mode; one that was made before is used again.
func attach(file string) (string, error) {
	devices, err := attached(file)
	if err != nil || len(devices) > 0 {
		return strings.Join(devices, ""), err
	}
	output, err := exec.Command("losetup", "--find", "--show", file).Output()
	return strings.TrimSpace(string(output)), err
}

func detach(file string) error {
	devices, err := attached(file)
	for _, device := range devices {
		err = errors.Join(err, exec.Command("losetup", "--detach", device).Run())
	}
	return err
}

func attached(file string) ([]string, error) {
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	output, err := exec.Command("losetup", "--associated", file, "--output", "NAME", "--noheadings").Output()
	return strings.Fields(string(output)), err
}

func checkID(ids ...string) error {
	for _, id := range ids {
		if id == "" || strings.HasPrefix(id, ".") || strings.ContainsRune(id, '/') {
			return status.Errorf(codes.InvalidArgument, "not an id: %q", id)
		}
	}
	return nil
}
