// A CSI driver for tests: its volumes and snapshots are folders on the node's disk.
//
// It makes and deletes volumes and snapshots, which are copies, and a kubelet, with which it registers, mounts them. A
// volume in Block mode is a loop device of the file `disk` in its folder. It is as strict as drivers of real disks: it
// refuses a volume smaller than its snapshot, deletes no volume that is attached or mounted, and with -attach mounts
// none that was not attached. The provisioner beside it, csi-snapshotter and csi-attacher call it.
//
// Usage: driver -name NAME -node NODE -directory DIRECTORY -socket SOCKET -registration SOCKET [-attach] [-hide-sizes]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
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

// Volumes are as large as asked for or larger, as with disks that come in whole units.
const unit = 4 << 20

func main() {
	d := &driver{}
	flag.StringVar(&d.name, "name", "", "name of the driver")
	flag.StringVar(&d.node, "node", "", "name of the node")
	flag.StringVar(&d.directory, "directory", "", "where volumes and snapshots are")
	flag.StringVar(&d.socket, "socket", "", "socket of the driver")
	registrations := flag.String("registration", "", "socket on which the kubelet is told of the driver")
	flag.BoolVar(&d.attach, "attach", false, "volumes must be attached to a node before they are mounted there")
	flag.BoolVar(&d.hideSizes, "hide-sizes", false, "do not report the size of snapshots, which is optional in CSI")
	flag.Parse()
	for _, folder := range []string{
		d.volume(""), d.snapshot(""), d.size(""), d.attached(""), filepath.Dir(d.socket),
	} {
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
		listener := listen(*registrations)
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
	attach, hideSizes             bool
	refused                       chan struct{}
}

func (d *driver) volume(id string) string   { return filepath.Join(d.directory, "volumes", id) }
func (d *driver) disk(id string) string     { return filepath.Join(d.volume(id), "disk") }
func (d *driver) snapshot(id string) string { return filepath.Join(d.directory, "snapshots", id) }
func (d *driver) size(id string) string     { return filepath.Join(d.directory, "sizes", id) }
func (d *driver) attached(id string) string { return filepath.Join(d.directory, "attached", id) }

// topology is where volumes can be used: a label of the node, which the kubelet sets.
func (d *driver) topology() *csi.Topology {
	return &csi.Topology{Segments: map[string]string{d.name + "/node": d.node}}
}

// sizeOf is the size of a volume or snapshot in bytes.
func (d *driver) sizeOf(id string) (int64, error) {
	written, err := os.ReadFile(d.size(id))
	if err != nil {
		return 0, status.Errorf(codes.NotFound, "there is no %s: %v", id, err)
	}
	return strconv.ParseInt(string(written), 10, 64)
}

func (d *driver) setSize(id string, bytes int64) error {
	return os.WriteFile(d.size(id), []byte(strconv.FormatInt(bytes, 10)), 0o600)
}

func (d *driver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: d.name, VendorVersion: "1"}, nil
}

func (d *driver) GetPluginCapabilities(
	context.Context, *csi.GetPluginCapabilitiesRequest,
) (*csi.GetPluginCapabilitiesResponse, error) {
	var capabilities []*csi.PluginCapability
	for _, kind := range []csi.PluginCapability_Service_Type{
		csi.PluginCapability_Service_CONTROLLER_SERVICE,
		csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS,
	} {
		service := &csi.PluginCapability_Service{Type: kind}
		capabilities = append(capabilities, &csi.PluginCapability{Type: &csi.PluginCapability_Service_{Service: service}})
	}
	return &csi.GetPluginCapabilitiesResponse{Capabilities: capabilities}, nil
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
	kinds := []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
	}
	if c.attach {
		kinds = append(kinds, csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME)
	}
	var capabilities []*csi.ControllerServiceCapability
	for _, kind := range kinds {
		rpc := &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: kind}}
		capabilities = append(capabilities, &csi.ControllerServiceCapability{Type: rpc})
	}
	return &csi.ControllerGetCapabilitiesResponse{Capabilities: capabilities}, nil
}

// CreateVolume makes a folder, empty or as a snapshot was; one that is there already is the answer to a repeated call.
func (c controller) CreateVolume(
	_ context.Context, request *csi.CreateVolumeRequest,
) (*csi.CreateVolumeResponse, error) {
	if err := checkID(request.Name); err != nil {
		return nil, err
	}
	if !c.isReachable(request.AccessibilityRequirements) {
		return nil, status.Errorf(codes.ResourceExhausted, "volumes are on the node %s only", c.node)
	}
	size, source := request.GetCapacityRange().GetRequiredBytes(), ""
	if request.VolumeContentSource != nil {
		snapshot := request.VolumeContentSource.GetSnapshot().GetSnapshotId()
		if err := checkID(snapshot); err != nil {
			return nil, err
		}
		smallest, err := c.sizeOf(snapshot)
		if err != nil {
			return nil, err
		}
		if size < smallest {
			return nil, status.Errorf(
				codes.OutOfRange, "%d bytes are less than the %d of the snapshot %s", size, smallest, snapshot,
			)
		}
		source = c.snapshot(snapshot)
	}
	size = max(1, (size+unit-1)/unit) * unit
	answer := &csi.CreateVolumeResponse{Volume: &csi.Volume{
		VolumeId:           request.Name,
		CapacityBytes:      size,
		ContentSource:      request.VolumeContentSource,
		AccessibleTopology: []*csi.Topology{c.topology()},
	}}
	if _, err := os.Stat(c.volume(request.Name)); err == nil {
		return answer, nil
	}
	unfinished := c.volume("." + request.Name)
	if err := os.RemoveAll(unfinished); err != nil {
		return nil, err
	}
	if err := copied(source, unfinished); err != nil {
		return nil, err
	}
	for _, capability := range request.VolumeCapabilities {
		if capability.GetBlock() == nil {
			continue
		}
		disk, err := os.OpenFile(filepath.Join(unfinished, "disk"), os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, err
		}
		if err := errors.Join(disk.Truncate(size), disk.Close()); err != nil {
			return nil, err
		}
	}
	if err := c.setSize(request.Name, size); err != nil {
		return nil, err
	}
	return answer, os.Rename(unfinished, c.volume(request.Name))
}

func (c controller) isReachable(asked *csi.TopologyRequirement) bool {
	if len(asked.GetRequisite()) == 0 {
		return true
	}
	for _, topology := range asked.Requisite {
		if topology.Segments[c.name+"/node"] == c.node {
			return true
		}
	}
	return false
}

// DeleteVolume deletes a folder, unless the volume is in use. One that is gone is the answer to a repeated call.
func (c controller) DeleteVolume(
	_ context.Context, request *csi.DeleteVolumeRequest,
) (*csi.DeleteVolumeResponse, error) {
	if err := checkID(request.VolumeId); err != nil {
		return nil, err
	}
	if _, err := os.Stat(c.attached(request.VolumeId)); err == nil {
		return nil, status.Errorf(codes.FailedPrecondition, "%s is attached", request.VolumeId)
	}
	// The first process of the node: this one is not among the node's, in whose mounts it runs.
	mounts, err := os.ReadFile("/proc/1/mountinfo")
	if err != nil {
		return nil, err
	}
	devices, err := attached(c.disk(request.VolumeId))
	if err != nil {
		return nil, err
	}
	if len(devices) > 0 || strings.Contains(string(mounts), "/volumes/"+request.VolumeId+" ") {
		return nil, status.Errorf(codes.FailedPrecondition, "%s is mounted", request.VolumeId)
	}
	if err := os.RemoveAll(c.volume(request.VolumeId)); err != nil {
		return nil, err
	}
	log.Printf("deleted the volume %s", request.VolumeId)
	return &csi.DeleteVolumeResponse{}, os.RemoveAll(c.size(request.VolumeId))
}

func (c controller) ControllerPublishVolume(
	_ context.Context, request *csi.ControllerPublishVolumeRequest,
) (*csi.ControllerPublishVolumeResponse, error) {
	if err := checkID(request.VolumeId); err != nil {
		return nil, err
	}
	if _, err := os.Stat(c.volume(request.VolumeId)); err != nil {
		return nil, status.Errorf(codes.NotFound, "there is no volume %s", request.VolumeId)
	}
	if request.NodeId != c.node {
		return nil, status.Errorf(codes.NotFound, "there is no node %s", request.NodeId)
	}
	return &csi.ControllerPublishVolumeResponse{}, os.WriteFile(c.attached(request.VolumeId), nil, 0o600)
}

func (c controller) ControllerUnpublishVolume(
	_ context.Context, request *csi.ControllerUnpublishVolumeRequest,
) (*csi.ControllerUnpublishVolumeResponse, error) {
	if err := checkID(request.VolumeId); err != nil {
		return nil, err
	}
	return &csi.ControllerUnpublishVolumeResponse{}, os.RemoveAll(c.attached(request.VolumeId))
}

// CreateSnapshot copies a volume; one of that name that is there already is the answer to a repeated call.
func (c controller) CreateSnapshot(
	_ context.Context, request *csi.CreateSnapshotRequest,
) (*csi.CreateSnapshotResponse, error) {
	if err := checkID(request.Name, request.SourceVolumeId); err != nil {
		return nil, err
	}
	target := c.snapshot(request.Name)
	size, err := c.sizeOf(request.SourceVolumeId)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(target); errors.Is(err, fs.ErrNotExist) {
		unfinished := c.snapshot("." + request.Name)
		if err := os.RemoveAll(unfinished); err != nil {
			return nil, err
		}
		if err := copied(c.volume(request.SourceVolumeId), unfinished); err != nil {
			return nil, err
		}
		if err := c.setSize(request.Name, size); err != nil {
			return nil, err
		}
		if err := os.Rename(unfinished, target); err != nil {
			return nil, err
		}
	}
	reported := size
	if c.hideSizes {
		reported = 0
	}
	return &csi.CreateSnapshotResponse{Snapshot: &csi.Snapshot{
		SnapshotId:     request.Name,
		SourceVolumeId: request.SourceVolumeId,
		SizeBytes:      reported,
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
	err := errors.Join(os.RemoveAll(c.snapshot(request.SnapshotId)), os.RemoveAll(c.size(request.SnapshotId)))
	return &csi.DeleteSnapshotResponse{}, err
}

type node struct {
	csi.UnimplementedNodeServer
	*driver
}

func (n node) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: n.node, AccessibleTopology: n.topology()}, nil
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
	if _, err := os.Stat(n.attached(request.VolumeId)); n.attach && err != nil {
		return nil, status.Errorf(codes.FailedPrecondition, "%s is not attached", request.VolumeId)
	}
	if _, err := os.Stat(n.volume(request.VolumeId)); err != nil {
		return nil, status.Errorf(codes.NotFound, "there is no volume %s", request.VolumeId)
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

// copied makes a folder with all that is in another, links, modes and owners included; an empty one of none.
func copied(source, target string) error {
	if source == "" {
		return os.Mkdir(target, 0o755)
	}
	if output, err := exec.Command("cp", "-a", source, target).CombinedOutput(); err != nil {
		return fmt.Errorf("copying %s: %w: %s", source, err, output)
	}
	return nil
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
