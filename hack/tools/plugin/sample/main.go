// A plugin of all five kinds on Velero's own framework: what our host is tested against.
//
// It does the same as the Python plugin in tests/support/sample_plugin; the tests say what.
package main

import (
	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"

	"github.com/vmware-tanzu/velero/pkg/plugin/framework"
)

func main() {
	framework.NewServer().
		BindFlags(pflag.CommandLine).
		RegisterBackupItemAction("example.io/backup", with(func(log logrus.FieldLogger) interface{} { return &backupAction{log} })).
		RegisterRestoreItemAction("example.io/restore", with(func(log logrus.FieldLogger) interface{} { return &restoreAction{log} })).
		RegisterDeleteItemAction("example.io/delete", with(func(log logrus.FieldLogger) interface{} { return &deleteAction{log} })).
		RegisterObjectStore("example.io/memory", with(func(logrus.FieldLogger) interface{} { return newMemory() })).
		RegisterVolumeSnapshotter("example.io/snapshots", with(func(logrus.FieldLogger) interface{} { return &snapshotter{} })).
		Serve()
}

func with(make func(logrus.FieldLogger) interface{}) framework.HandlerInitializer {
	return func(log logrus.FieldLogger) (interface{}, error) { return make(log), nil }
}
