// A host on the plugin management of Velero 1.6.3 itself: what our Python plugins are tested against.
//
// Usage: host PLUGIN_DIRECTORY. Uses every plugin of tests/support/sample_plugin that it finds there, prints
// what it got as one JSON object on stdout and what plugins logged as JSON lines on stderr.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/ioutil"
	"os"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	api "github.com/vmware-tanzu/velero/pkg/apis/velero/v1"
	"github.com/vmware-tanzu/velero/pkg/plugin/clientmgmt"
	"github.com/vmware-tanzu/velero/pkg/plugin/framework"
	"github.com/vmware-tanzu/velero/pkg/plugin/velero"
)

type report map[string]interface{}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "run-plugins" {
		// The host asks its own program for built-in plugins; there are none.
		framework.NewServer().BindFlags(pflag.CommandLine).Serve()
		return
	}
	log := logrus.New()
	log.SetFormatter(&logrus.JSONFormatter{})
	log.SetLevel(logrus.DebugLevel)
	got, err := run(os.Args[1], log)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := json.NewEncoder(os.Stdout).Encode(got); err != nil {
		os.Exit(1)
	}
}

func run(directory string, log *logrus.Logger) (report, error) {
	registry := clientmgmt.NewRegistry(directory, log, log.Level)
	if err := registry.DiscoverPlugins(); err != nil {
		return nil, err
	}
	var names []string
	for _, kind := range framework.AllPluginKinds() {
		for _, plugin := range registry.List(kind) {
			names = append(names, plugin.Kind.String()+" "+plugin.Name)
		}
	}
	manager := clientmgmt.NewManager(log, log.Level, registry)
	defer manager.CleanupClients()
	got := report{"plugins": names}
	for name, part := range map[string]func(clientmgmt.Manager) (report, error){
		"backup": backups, "restore": restores, "delete": deletes, "store": stores, "snapshots": snapshots,
	} {
		found, err := part(manager)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		got[name] = found
	}
	return got, nil
}

func pod(wish string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]interface{}{
		"apiVersion": "v1",
		"kind":       "Pod",
		"metadata": map[string]interface{}{
			"name": "web", "namespace": "shop", "annotations": map[string]interface{}{"example.io/do": wish},
		},
	}}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func backups(manager clientmgmt.Manager) (report, error) {
	actions, err := manager.GetBackupItemActions()
	if err != nil {
		return nil, err
	}
	selector, err := actions[0].AppliesTo()
	if err != nil {
		return nil, err
	}
	backup := &api.Backup{ObjectMeta: metav1.ObjectMeta{Name: "b1", Namespace: "velero"}}
	got := report{"selector": selector}
	for _, wish := range []string{"", "change", "nothing", "log"} {
		item, additional, err := actions[0].Execute(pod(wish), backup)
		if err != nil {
			return nil, err
		}
		got["item "+wish], got["additional "+wish] = item, additional
	}
	for _, wish := range []string{"fail", "panic"} {
		_, _, err := actions[0].Execute(pod(wish), backup)
		got["error "+wish] = text(err)
	}
	return got, nil
}

func restores(manager clientmgmt.Manager) (report, error) {
	actions, err := manager.GetRestoreItemActions()
	if err != nil {
		return nil, err
	}
	selector, err := actions[0].AppliesTo()
	if err != nil {
		return nil, err
	}
	got := report{"selector": selector}
	for _, wish := range []string{"change", "skip"} {
		output, err := actions[0].Execute(&velero.RestoreItemActionExecuteInput{
			Item:           pod(wish),
			ItemFromBackup: pod(wish),
			Restore:        &api.Restore{ObjectMeta: metav1.ObjectMeta{Name: "r1", Namespace: "velero"}},
		})
		if err != nil {
			return nil, err
		}
		got[wish] = report{"item": output.UpdatedItem, "additional": output.AdditionalItems, "skip": output.SkipRestore}
	}
	return got, nil
}

func deletes(manager clientmgmt.Manager) (report, error) {
	actions, err := manager.GetDeleteItemActions()
	if err != nil {
		return nil, err
	}
	selector, err := actions[0].AppliesTo()
	if err != nil {
		return nil, err
	}
	got := report{"selector": selector}
	for _, wish := range []string{"", "fail"} {
		got["error "+wish] = text(actions[0].Execute(&velero.DeleteItemActionExecuteInput{
			Item:   pod(wish),
			Backup: &api.Backup{ObjectMeta: metav1.ObjectMeta{Name: "b1", Namespace: "velero"}},
		}))
	}
	return got, nil
}

func stores(manager clientmgmt.Manager) (report, error) {
	store, err := manager.GetObjectStore("example.io/memory")
	if err != nil {
		return nil, err
	}
	if err := store.Init(map[string]string{"bucket": "b", "prefix": "", "marker": "m1"}); err != nil {
		return nil, err
	}
	large := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
	for key, body := range map[string][]byte{"a-prefix/foo-1/bar": []byte("x"), "a-prefix/foo-2/baz": []byte("y"), "x/y": large} {
		if err := store.PutObject("b", key, bytes.NewReader(body)); err != nil {
			return nil, err
		}
	}
	got := report{"refused": text(store.PutObject("b", "refuse", strings.NewReader("x")))}
	reader, err := store.GetObject("b", "x/y")
	if err != nil {
		return nil, err
	}
	back, err := ioutil.ReadAll(reader)
	if err != nil {
		return nil, err
	}
	got["large"] = bytes.Equal(back, large)
	_, missing := store.GetObject("b", "missing")
	if missing == nil {
		reader, _ := store.GetObject("b", "missing")
		_, missing = ioutil.ReadAll(reader)
	}
	got["missing"] = text(missing)
	if got["exists"], err = store.ObjectExists("b", "x/y"); err != nil {
		return nil, err
	}
	if got["prefixes"], err = store.ListCommonPrefixes("b", "a-prefix/", "/"); err != nil {
		return nil, err
	}
	if err := store.DeleteObject("b", "x/y"); err != nil {
		return nil, err
	}
	if got["keys"], err = store.ListObjects("b", ""); err != nil {
		return nil, err
	}
	got["url"], err = store.CreateSignedURL("b", "k", 10*time.Minute)
	return got, err
}

func snapshots(manager clientmgmt.Manager) (report, error) {
	snapshotter, err := manager.GetVolumeSnapshotter("example.io/snapshots")
	if err != nil {
		return nil, err
	}
	if err := snapshotter.Init(map[string]string{"region": "north"}); err != nil {
		return nil, err
	}
	got, iops := report{}, int64(7)
	if got["snapshot"], err = snapshotter.CreateSnapshot("v1", "az1", map[string]string{"a": "1", "b": "2"}); err != nil {
		return nil, err
	}
	if got["volume"], err = snapshotter.CreateVolumeFromSnapshot("s1", "ssd", "az1", nil); err != nil {
		return nil, err
	}
	if got["fast volume"], err = snapshotter.CreateVolumeFromSnapshot("s1", "ssd", "az1", &iops); err != nil {
		return nil, err
	}
	for _, volume := range []string{"fast", "slow"} {
		kind, iops, err := snapshotter.GetVolumeInfo(volume, "az1")
		if err != nil {
			return nil, err
		}
		got["info "+volume] = report{"type": kind, "iops": iops}
	}
	got["delete missing"] = text(snapshotter.DeleteSnapshot("missing"))
	pv := &unstructured.Unstructured{Object: map[string]interface{}{"apiVersion": "v1", "kind": "PersistentVolume", "spec": map[string]interface{}{}}}
	changed, err := snapshotter.SetVolumeID(pv, "v9")
	if err != nil {
		return nil, err
	}
	got["changed"] = changed
	got["id"], err = snapshotter.GetVolumeID(changed)
	return got, err
}
