package main

import (
	"errors"
	"os"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	api "github.com/vmware-tanzu/velero/pkg/apis/velero/v1"
	"github.com/vmware-tanzu/velero/pkg/plugin/velero"
)

// What is to happen to an item stands in this annotation of it.
const wish = "example.io/do"

var selector = velero.ResourceSelector{
	IncludedNamespaces: []string{"shop"},
	ExcludedNamespaces: []string{"kube-system"},
	IncludedResources:  []string{"pods"},
	ExcludedResources:  []string{"nodes"},
	LabelSelector:      "app=web",
}

var additional = []velero.ResourceIdentifier{{
	GroupResource: schema.GroupResource{Group: "group", Resource: "pods"},
	Namespace:     "myns",
	Name:          "mypod",
}}

// misbehave does what an item wishes that is no change; an error is the item's end.
func misbehave(item runtime.Unstructured, log logrus.FieldLogger) error {
	object := &unstructured.Unstructured{Object: item.UnstructuredContent()}
	switch object.GetAnnotations()[wish] {
	case "fail":
		return errors.New("it broke")
	case "panic":
		panic("at the disco")
	case "crash":
		os.Exit(3)
	case "hang":
		select {}
	case "log":
		log.WithField("count", 2).Warn("a warning")
		log.WithError(errors.New("the cause")).Error("an error")
	}
	return nil
}

func labelled(item runtime.Unstructured, key, value string) runtime.Unstructured {
	object := &unstructured.Unstructured{Object: item.UnstructuredContent()}
	labels := object.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[key] = value
	object.SetLabels(labels)
	return object
}

func wishOf(item runtime.Unstructured) string {
	return (&unstructured.Unstructured{Object: item.UnstructuredContent()}).GetAnnotations()[wish]
}

type backupAction struct{ log logrus.FieldLogger }

func (a *backupAction) AppliesTo() (velero.ResourceSelector, error) { return selector, nil }

func (a *backupAction) Execute(item runtime.Unstructured, backup *api.Backup) (runtime.Unstructured, []velero.ResourceIdentifier, error) {
	if err := misbehave(item, a.log); err != nil {
		return nil, nil, err
	}
	switch wishOf(item) {
	case "change":
		return labelled(item, "backup", backup.Name), additional, nil
	case "nothing":
		return nil, nil, nil
	}
	return item, nil, nil
}

type restoreAction struct{ log logrus.FieldLogger }

func (a *restoreAction) AppliesTo() (velero.ResourceSelector, error) { return selector, nil }

func (a *restoreAction) Execute(input *velero.RestoreItemActionExecuteInput) (*velero.RestoreItemActionExecuteOutput, error) {
	if err := misbehave(input.Item, a.log); err != nil {
		return nil, err
	}
	switch wishOf(input.Item) {
	case "change":
		before := &unstructured.Unstructured{Object: input.ItemFromBackup.UnstructuredContent()}
		output := velero.NewRestoreItemActionExecuteOutput(labelled(input.Item, "restore", input.Restore.Name+"-"+before.GetName()))
		output.AdditionalItems = additional
		return output, nil
	case "skip":
		return velero.NewRestoreItemActionExecuteOutput(input.Item).WithoutRestore(), nil
	}
	return velero.NewRestoreItemActionExecuteOutput(input.Item), nil
}

type deleteAction struct{ log logrus.FieldLogger }

func (a *deleteAction) AppliesTo() (velero.ResourceSelector, error) { return selector, nil }

func (a *deleteAction) Execute(input *velero.DeleteItemActionExecuteInput) error {
	a.log.Infof("deleted with backup %s", input.Backup.Name)
	return misbehave(input.Item, a.log)
}
