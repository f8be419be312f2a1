// A plugin of the kinds of Velero 1.11 and later on its own framework, version 1.18: item actions of version 2
// and an item block action.
//
// It does the same as the Python plugin in tests/support/later_plugin; the tests say what.
package main

import (
	"errors"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	api "github.com/vmware-tanzu/velero/pkg/apis/velero/v1"
	"github.com/vmware-tanzu/velero/pkg/plugin/framework"
	"github.com/vmware-tanzu/velero/pkg/plugin/velero"
)

var selector = velero.ResourceSelector{IncludedResources: []string{"pods"}, LabelSelector: "app=web"}

func pod(name string) []velero.ResourceIdentifier {
	return []velero.ResourceIdentifier{{
		GroupResource: schema.GroupResource{Group: "group", Resource: "pods"},
		Namespace:     "myns",
		Name:          name,
	}}
}

var started = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func progress(id string) (velero.OperationProgress, error) {
	switch id {
	case "unknown":
		return velero.OperationProgress{}, errors.New("no such operation")
	case "failed":
		return velero.OperationProgress{Completed: true, Err: "it broke"}, nil
	case "done":
		return velero.OperationProgress{Completed: true, NCompleted: 3, NTotal: 3}, nil
	}
	return velero.OperationProgress{
		NCompleted: 1, NTotal: 3, OperationUnits: "Bytes", Description: "copying", Started: started, Updated: started,
	}, nil
}

func cancel(id string) error {
	if id == "unknown" {
		return errors.New("no such operation")
	}
	return nil
}

type backupAction struct{}

func (*backupAction) Name() string                                { return "example.io/later-backup" }
func (*backupAction) AppliesTo() (velero.ResourceSelector, error) { return selector, nil }
func (*backupAction) Execute(item runtime.Unstructured, backup *api.Backup) (
	runtime.Unstructured, []velero.ResourceIdentifier, string, []velero.ResourceIdentifier, error,
) {
	return item, pod("additional"), "op-" + backup.Name, pod("after"), nil
}
func (*backupAction) Progress(id string, _ *api.Backup) (velero.OperationProgress, error) {
	return progress(id)
}
func (*backupAction) Cancel(id string, _ *api.Backup) error { return cancel(id) }

type restoreAction struct{}

func (*restoreAction) Name() string                                { return "example.io/later-restore" }
func (*restoreAction) AppliesTo() (velero.ResourceSelector, error) { return selector, nil }
func (*restoreAction) Execute(input *velero.RestoreItemActionExecuteInput) (*velero.RestoreItemActionExecuteOutput, error) {
	output := velero.NewRestoreItemActionExecuteOutput(input.Item).WithOperationID("op-" + input.Restore.Name)
	output.AdditionalItems = pod("additional")
	output.WaitForAdditionalItems = true
	output.AdditionalItemsReadyTimeout = 90 * time.Second
	return output, nil
}
func (*restoreAction) Progress(id string, _ *api.Restore) (velero.OperationProgress, error) {
	return progress(id)
}
func (*restoreAction) Cancel(id string, _ *api.Restore) error { return cancel(id) }
func (*restoreAction) AreAdditionalItemsReady(items []velero.ResourceIdentifier, _ *api.Restore) (bool, error) {
	return len(items) == 1 && items[0].Name == "additional", nil
}

type blockAction struct{}

func (*blockAction) Name() string                                { return "example.io/block" }
func (*blockAction) AppliesTo() (velero.ResourceSelector, error) { return selector, nil }
func (*blockAction) GetRelatedItems(_ runtime.Unstructured, backup *api.Backup) ([]velero.ResourceIdentifier, error) {
	return pod("related-" + backup.Name), nil
}

func main() {
	framework.NewServer().
		BindFlags(pflag.CommandLine).
		RegisterBackupItemActionV2("example.io/later-backup", with(&backupAction{})).
		RegisterRestoreItemActionV2("example.io/later-restore", with(&restoreAction{})).
		RegisterItemBlockAction("example.io/block", with(&blockAction{})).
		Serve()
}

func with(action any) func(logrus.FieldLogger) (any, error) {
	return func(logrus.FieldLogger) (any, error) { return action, nil }
}
