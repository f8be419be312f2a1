package main

import (
	"bytes"
	"fmt"
	"io"
	"io/ioutil"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// memory keeps objects as long as the process lives. It knows every bucket but the one called "missing".
type memory struct {
	lock    sync.Mutex
	config  map[string]string
	objects map[string][]byte
}

func newMemory() *memory { return &memory{objects: map[string][]byte{}} }

func check(bucket string) error {
	if bucket == "missing" {
		return errors.New("the bucket does not exist")
	}
	return nil
}

func (m *memory) Init(config map[string]string) error {
	if config["fail"] != "" {
		return errors.New("config refused")
	}
	m.lock.Lock()
	defer m.lock.Unlock()
	m.config = config
	return nil
}

func (m *memory) PutObject(bucket, key string, body io.Reader) error {
	if err := check(bucket); err != nil {
		return err
	}
	if key == "refuse" {
		return errors.New("the object is refused")
	}
	data, err := ioutil.ReadAll(body)
	if err != nil {
		return err
	}
	m.lock.Lock()
	defer m.lock.Unlock()
	m.objects[bucket+"/"+key] = data
	return nil
}

func (m *memory) ObjectExists(bucket, key string) (bool, error) {
	if err := check(bucket); err != nil {
		return false, err
	}
	m.lock.Lock()
	defer m.lock.Unlock()
	_, found := m.objects[bucket+"/"+key]
	return found, nil
}

func (m *memory) GetObject(bucket, key string) (io.ReadCloser, error) {
	if err := check(bucket); err != nil {
		return nil, err
	}
	m.lock.Lock()
	defer m.lock.Unlock()
	data, found := m.objects[bucket+"/"+key]
	if !found {
		return nil, errors.New("key not found")
	}
	return ioutil.NopCloser(bytes.NewReader(data)), nil
}

func (m *memory) ListCommonPrefixes(bucket, prefix, delimiter string) ([]string, error) {
	keys, err := m.ListObjects(bucket, prefix)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	var prefixes []string
	for _, key := range keys {
		end := strings.Index(key[len(prefix):], delimiter)
		if end < 0 {
			continue
		}
		common := key[:len(prefix)+end+len(delimiter)]
		if !seen[common] {
			seen[common] = true
			prefixes = append(prefixes, common)
		}
	}
	return prefixes, nil
}

func (m *memory) ListObjects(bucket, prefix string) ([]string, error) {
	if err := check(bucket); err != nil {
		return nil, err
	}
	m.lock.Lock()
	defer m.lock.Unlock()
	var keys []string
	for name := range m.objects {
		key := strings.TrimPrefix(name, bucket+"/")
		if strings.HasPrefix(name, bucket+"/") && strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	sort.Strings(keys)
	return keys, nil
}

func (m *memory) DeleteObject(bucket, key string) error {
	if err := check(bucket); err != nil {
		return err
	}
	m.lock.Lock()
	defer m.lock.Unlock()
	delete(m.objects, bucket+"/"+key)
	return nil
}

func (m *memory) CreateSignedURL(bucket, key string, ttl time.Duration) (string, error) {
	m.lock.Lock()
	defer m.lock.Unlock()
	return fmt.Sprintf("memory://%s/%s?ttl=%d&marker=%s", bucket, key, ttl.Nanoseconds(), m.config["marker"]), nil
}

// snapshotter names things after what it is asked.
type snapshotter struct{ config map[string]string }

func (s *snapshotter) Init(config map[string]string) error {
	s.config = config
	return nil
}

func (s *snapshotter) CreateVolumeFromSnapshot(snapshotID, volumeType, volumeAZ string, iops *int64) (string, error) {
	if iops == nil {
		return fmt.Sprintf("volume %s %s %s", snapshotID, volumeType, volumeAZ), nil
	}
	return fmt.Sprintf("volume %s %s %s %d", snapshotID, volumeType, volumeAZ, *iops), nil
}

func (s *snapshotter) GetVolumeInfo(volumeID, volumeAZ string) (string, *int64, error) {
	if volumeID == "fast" {
		iops := int64(100)
		return "ssd", &iops, nil
	}
	return "disk", nil, nil
}

func (s *snapshotter) CreateSnapshot(volumeID, volumeAZ string, tags map[string]string) (string, error) {
	var pairs []string
	for key, value := range tags {
		pairs = append(pairs, key+"="+value)
	}
	sort.Strings(pairs)
	return fmt.Sprintf("snapshot %s %s %s %s", s.config["region"], volumeID, volumeAZ, strings.Join(pairs, ",")), nil
}

func (s *snapshotter) DeleteSnapshot(snapshotID string) error {
	if snapshotID == "missing" {
		return errors.New("snapshot not found")
	}
	return nil
}

func (s *snapshotter) GetVolumeID(pv runtime.Unstructured) (string, error) {
	id, _, err := unstructured.NestedString(pv.UnstructuredContent(), "spec", "sample", "id")
	return id, err
}

func (s *snapshotter) SetVolumeID(pv runtime.Unstructured, volumeID string) (runtime.Unstructured, error) {
	return pv, unstructured.SetNestedField(pv.UnstructuredContent(), volumeID, "spec", "sample", "id")
}
