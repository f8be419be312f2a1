// The provisioner of the tests' CSI driver, on the library that external-provisioner is made of, whose rules it keeps:
// no claim with a selector, none smaller than its snapshot or in another volume mode, one volume for each claim, and a
// volume that is Released with the policy Delete is deleted by the library, unless it is attached somewhere.
//
// Usage: provisioner -kubeconfig FILE -csi-address SOCKET
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os/signal"
	"syscall"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	snapshots "github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

const (
	// The library waits 15 seconds before it tries again, as the clouds of real drivers are slow.
	firstRetry, lastRetry = 200 * time.Millisecond, 2 * time.Second
	modeChange            = "snapshot.storage.kubernetes.io/allow-volume-mode-change"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "how the API server is reached")
	address := flag.String("csi-address", "", "socket of the driver")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		log.Fatal(err)
	}
	connection, err := grpc.NewClient("unix://"+*address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	info, err := csi.NewIdentityClient(connection).GetPluginInfo(
		ctx, &csi.GetPluginInfoRequest{}, grpc.WaitForReady(true),
	)
	if err != nil {
		log.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(config)
	p := &provisioner{
		client: client, snapshots: snapshots.NewForConfigOrDie(config), driver: csi.NewControllerClient(connection),
		name: info.Name,
	}
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry)
	controller.NewProvisionController(
		ctx, client, info.Name, p,
		controller.LeaderElection(false),
		controller.AddFinalizer(true), // as external-provisioner since it honours policies in any order of deletion
		controller.FailedProvisionThreshold(0),
		controller.FailedDeleteThreshold(0),
		controller.RateLimiter(limiter),
		controller.RetryIntervalMax(lastRetry),
	).Run(ctx)
}

type provisioner struct {
	client    kubernetes.Interface
	snapshots snapshots.Interface
	driver    csi.ControllerClient
	name      string
}

func (p *provisioner) SupportsBlock(context.Context) bool { return true }

// Provision makes the volume of a claim.
func (p *provisioner) Provision(
	ctx context.Context, options controller.ProvisionOptions,
) (*v1.PersistentVolume, controller.ProvisioningState, error) {
	claim := options.PVC
	if claim.Spec.Selector != nil {
		return nil, controller.ProvisioningFinished, errors.New("claim Selector is not supported")
	}
	capability, err := capabilityOf(claim)
	if err != nil {
		return nil, controller.ProvisioningFinished, err
	}
	size := claim.Spec.Resources.Requests[v1.ResourceStorage]
	source, err := p.contentOf(ctx, claim, size.Value())
	if err != nil {
		return nil, controller.ProvisioningNoChange, err
	}
	answer, err := p.driver.CreateVolume(ctx, &csi.CreateVolumeRequest{
		Name:                      options.PVName,
		CapacityRange:             &csi.CapacityRange{RequiredBytes: size.Value()},
		VolumeCapabilities:        []*csi.VolumeCapability{capability},
		Parameters:                options.StorageClass.Parameters,
		VolumeContentSource:       source,
		AccessibilityRequirements: p.requirements(options.SelectedNodeName),
	})
	if status.Code(err) == codes.ResourceExhausted && options.SelectedNodeName != "" {
		return nil, controller.ProvisioningReschedule, err
	}
	if err != nil {
		return nil, controller.ProvisioningFinished, err
	}
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: options.PVName},
		Spec: v1.PersistentVolumeSpec{
			AccessModes:                   claim.Spec.AccessModes,
			Capacity:                      v1.ResourceList{v1.ResourceStorage: *resource.NewQuantity(answer.Volume.CapacityBytes, resource.BinarySI)},
			MountOptions:                  options.StorageClass.MountOptions,
			NodeAffinity:                  affinity(answer.Volume.AccessibleTopology),
			PersistentVolumeReclaimPolicy: *options.StorageClass.ReclaimPolicy,
			VolumeMode:                    claim.Spec.VolumeMode,
			PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{
				Driver: p.name, VolumeHandle: answer.Volume.VolumeId, VolumeAttributes: answer.Volume.VolumeContext,
			}},
		},
	}, controller.ProvisioningFinished, nil
}

// Delete deletes the storage of a volume, unless it is attached.
func (p *provisioner) Delete(ctx context.Context, volume *v1.PersistentVolume) error {
	attachments, err := p.client.StorageV1().VolumeAttachments().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, attachment := range attachments.Items {
		if name := attachment.Spec.Source.PersistentVolumeName; name != nil && *name == volume.Name {
			return fmt.Errorf("persistentvolume %s is still attached to node %s", volume.Name, attachment.Spec.NodeName)
		}
	}
	_, err = p.driver.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: volume.Spec.CSI.VolumeHandle})
	if err == nil {
		log.Printf("the library deleted the volume %s", volume.Name)
	}
	return err
}

// contentOf is the snapshot that a claim is made of, after the checks of external-provisioner.
func (p *provisioner) contentOf(
	ctx context.Context, claim *v1.PersistentVolumeClaim, size int64,
) (*csi.VolumeContentSource, error) {
	source := claim.Spec.DataSource
	if source == nil {
		return nil, nil
	}
	if source.Kind != "VolumeSnapshot" {
		return nil, fmt.Errorf("a volume cannot be made of a %s", source.Kind)
	}
	api := p.snapshots.SnapshotV1()
	snapshot, err := api.VolumeSnapshots(claim.Namespace).Get(ctx, source.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if snapshot.DeletionTimestamp != nil {
		return nil, fmt.Errorf("snapshot %s is currently being deleted", source.Name)
	}
	if snapshot.Status == nil || snapshot.Status.BoundVolumeSnapshotContentName == nil {
		return nil, fmt.Errorf("snapshot %s not bound", source.Name)
	}
	content, err := api.VolumeSnapshotContents().Get(
		ctx, *snapshot.Status.BoundVolumeSnapshotContentName, metav1.GetOptions{},
	)
	if err != nil {
		return nil, err
	}
	if content.Spec.VolumeSnapshotRef.UID != snapshot.UID {
		return nil, fmt.Errorf("snapshot %s is bound to a content of another snapshot", source.Name)
	}
	if content.Spec.Driver != p.name {
		return nil, fmt.Errorf("snapshot %s is of the driver %s", source.Name, content.Spec.Driver)
	}
	if snapshot.Status.ReadyToUse == nil || !*snapshot.Status.ReadyToUse {
		return nil, fmt.Errorf("snapshot %s is not Ready", source.Name)
	}
	if content.Status == nil || content.Status.SnapshotHandle == nil {
		return nil, fmt.Errorf("snapshot handle of %s is not available", source.Name)
	}
	if smallest := content.Status.RestoreSize; smallest != nil && size < *smallest {
		return nil, fmt.Errorf("requested volume size %d is less than the size %d for the source snapshot %s", size, *smallest, source.Name)
	}
	mode, allowed := content.Spec.SourceVolumeMode, content.Annotations[modeChange] == "true"
	if mode != nil && claim.Spec.VolumeMode != nil && *mode != *claim.Spec.VolumeMode && !allowed {
		return nil, fmt.Errorf("requested volume %s modifies the mode of the source volume", claim.Name)
	}
	return &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{
		Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: *content.Status.SnapshotHandle},
	}}, nil
}

// requirements is where the volume must be usable: on the node that the scheduler has selected.
func (p *provisioner) requirements(node string) *csi.TopologyRequirement {
	if node == "" {
		return nil
	}
	wanted := []*csi.Topology{{Segments: map[string]string{p.name + "/node": node}}}
	return &csi.TopologyRequirement{Requisite: wanted, Preferred: wanted}
}

func affinity(topologies []*csi.Topology) *v1.VolumeNodeAffinity {
	var terms []v1.NodeSelectorTerm
	for _, topology := range topologies {
		var expressions []v1.NodeSelectorRequirement
		for key, value := range topology.Segments {
			expressions = append(expressions, v1.NodeSelectorRequirement{
				Key: key, Operator: v1.NodeSelectorOpIn, Values: []string{value},
			})
		}
		terms = append(terms, v1.NodeSelectorTerm{MatchExpressions: expressions})
	}
	return &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: terms}}
}

func capabilityOf(claim *v1.PersistentVolumeClaim) (*csi.VolumeCapability, error) {
	modes := map[v1.PersistentVolumeAccessMode]csi.VolumeCapability_AccessMode_Mode{
		v1.ReadWriteOnce: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER,
		v1.ReadOnlyMany:  csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY,
		v1.ReadWriteMany: csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER,
	}
	if len(claim.Spec.AccessModes) == 0 {
		return nil, errors.New("the claim has no access mode")
	}
	mode, known := modes[claim.Spec.AccessModes[0]]
	if !known {
		return nil, fmt.Errorf("the access mode %s is not supported", claim.Spec.AccessModes[0])
	}
	capability := &csi.VolumeCapability{AccessMode: &csi.VolumeCapability_AccessMode{Mode: mode}}
	if claim.Spec.VolumeMode != nil && *claim.Spec.VolumeMode == v1.PersistentVolumeBlock {
		capability.AccessType = &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}
	} else {
		capability.AccessType = &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}}
	}
	return capability, nil
}
